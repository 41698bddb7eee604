import { once } from 'node:events';
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  RequestListener,
  Server,
  ServerResponse,
} from 'node:http';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { listenLocally } from '../processes/ports.ts';
import { type UntilOptions, until } from '../until.ts';

export interface DeliveredEvent {
  id: string;
  topic: string;
  type: string;
  url: string;
  t: number;
  data?: unknown;
}

/** A request as it arrived. */
export interface Delivery {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  events: DeliveredEvent[];
  /** The batch's id; empty if a Ruby worker has sent it. */
  id: string;
  attempt: number;
  /** The time of its arrival, by `performance.now()`. */
  atMs: number;
  /** True if the delivery was answered 2xx. */
  readonly taken: boolean;
}

/** How a receiver answers a request. */
export type Answer = (response: ServerResponse, delivery: Delivery) => void;

export const answer = {
  status:
    (status: number, headers: Record<string, string> = {}) =>
    (response: ServerResponse): void => {
      // The sender may be gone.
      if (!response.destroyed) response.writeHead(status, headers).end();
    },
  /** Answers with this body. */
  text:
    (status: number, text: string): Answer =>
    (response) =>
      void response.writeHead(status).end(text),
  /** Answers with a body that begins with this text and then grows by a byte every 10 ms for ever. */
  drip:
    (status: number, beginning: string): Answer =>
    (response) => {
      response.writeHead(status).write(beginning);
      const timer = setInterval(() => response.write('.'), 10);
      response.on('close', () => clearInterval(timer));
    },
  /** Accepts after this time. */
  late:
    (ms: number): Answer =>
    (response) =>
      void setTimeout(() => TAKE(response), ms),
  /** No answer, and the connection stays open. */
  hang: (() => {}) satisfies Answer,
  reset: ((response) => void response.socket?.resetAndDestroy()) satisfies Answer,
  /** A 2xx whose body never ends. */
  endless: ((response) => {
    response.writeHead(200);
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16_384, 'x')));
    };
    response.on('drain', more);
    more();
  }) satisfies Answer,
};

const TAKE = answer.status(204);

/**
 * A receiver on a free port of 127.0.0.1. It records deliveries, and accepts them unless a test plans another
 * answer.
 */
export class Receiver {
  readonly deliveries: Delivery[] = [];
  /** The answer to requests for which no other is planned. */
  usual: Answer = TAKE;
  readonly #server: Server;
  readonly #scheme: 'http' | 'https';
  readonly #next: Answer[] = [];
  #port = 0;

  /** Starts a receiver, with https if `tls` has a certificate and its key in PEM. */
  static async start(tls?: { key: string; cert: string }): Promise<Receiver> {
    const receiver = new Receiver(tls);
    receiver.#port = await listenLocally(receiver.#server);
    return receiver;
  }

  private constructor(tls?: { key: string; cert: string }) {
    const listener: RequestListener = (request, response) => void this.#take(request, response);
    this.#scheme = tls ? 'https' : 'http';
    this.#server = tls ? createTlsServer(tls, listener) : createServer(listener);
  }

  get callback(): string {
    return `${this.#scheme}://127.0.0.1:${this.#port}/events?from=bus`;
  }

  /** The events of accepted deliveries, in the order of arrival. */
  get events(): DeliveredEvent[] {
    return this.deliveries.filter(({ taken }) => taken).flatMap(({ events }) => events);
  }

  /** The URLs of the accepted events. Tests give each event its own URL. */
  get urls(): string[] {
    return this.events.map(({ url }) => url);
  }

  /** Returns those of `urls` that no accepted delivery had. */
  missing(urls: readonly string[]): string[] {
    const taken = new Set(this.urls);
    return urls.filter((url) => !taken.has(url));
  }

  /** Answers the next requests like this, and those after them as usual. */
  answers(...answers: Answer[]): void {
    this.#next.push(...answers);
  }

  /** Leaves the next request unanswered until the returned function is called, then accepts it. */
  hold(): () => void {
    const held = Promise.withResolvers<void>();
    this.answers((response) => void held.promise.then(() => TAKE(response)));
    return held.resolve;
  }

  /** Resolves with the nth delivery; the first is 1. */
  async delivery(n: number, options: UntilOptions = {}): Promise<Delivery> {
    return until(() => this.deliveries[n - 1], { what: `delivery ${n}`, ...options });
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    request.setEncoding('utf8');
    try {
      for await (const chunk of request) body += chunk;
    } catch {
      return; // The sender went away in mid-request.
    }
    const { method = '', url: path = '', headers } = request;
    const delivery: Delivery = {
      method,
      path,
      headers,
      body,
      // Some tests use the receiver in place of a bus. Then it gets calls without a body, such as GET.
      events: method === 'POST' ? JSON.parse(body) : [],
      id: String(headers['webhook-id'] ?? ''),
      attempt: Number(headers['routemaster-attempt']),
      atMs: performance.now(),
      get taken() {
        return response.headersSent && response.statusCode >= 200 && response.statusCode < 300;
      },
    };
    this.deliveries.push(delivery);
    (this.#next.shift() ?? this.usual)(response, delivery);
  }
}
