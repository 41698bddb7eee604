import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { after } from 'node:test';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { Routemaster, type RoutemasterOptions } from '../../../packages/client/src/index.ts';

/** A request that arrived whole. */
interface Arrived {
  method: string;
  path: string;
  key: string | undefined;
  body: string;
  /** The URLs of its events. */
  urls: string[];
  /** The time of its arrival, by `performance.now()`. */
  atMs: number;
}

export type Answer = (response: ServerResponse, arrived: Arrived) => void;

export const say =
  (status: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (response) =>
    void response.writeHead(status, headers).end(body);

/** A problem document, as the bus answers it. */
export const problem = (
  status: number,
  code: string,
  { headers = {}, ...members }: { headers?: Record<string, string> } & Record<string, unknown> = {},
): Answer =>
  say(
    status,
    { 'content-type': 'application/problem+json', ...headers },
    JSON.stringify({ type: 'about:blank', title: 'A title', status, code, detail: 'A detail', ...members }),
  );

export const hang: Answer = () => {};
export const cut: Answer = (response) => void response.socket?.destroy();

/** An HTTP server that answers 204 unless a test plans another answer. */
export class ScriptedWeb {
  url = '';
  readonly requests: Arrived[] = [];
  /** Number of requests that their senders have given up. */
  givenUp = 0;
  readonly #server: Server;
  readonly #next: Answer[] = [];
  readonly #held: (() => void)[] = [];
  #holds = false;

  /** Starts the server. It stops after the tests of the file. */
  static async start(port = 0): Promise<ScriptedWeb> {
    const web = new ScriptedWeb();
    web.url = `http://127.0.0.1:${await listenLocally(web.#server, { port })}`;
    after(() => {
      web.#server.close();
      web.#server.closeAllConnections();
    });
    return web;
  }

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  client(options: Partial<RoutemasterOptions> = {}): Routemaster {
    return new Routemaster({ url: this.url, token: 'shop', secret: 'secret', ...options });
  }

  /** Answers the next requests like this. */
  answers(...answers: Answer[]): void {
    this.#next.push(...answers);
  }

  /** Leaves requests unanswered until the returned function is called. */
  hold(): () => void {
    this.#holds = true;
    return () => {
      this.#holds = false;
      for (const answer of this.#held.splice(0)) answer();
    };
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.once('close', () => {
      if (!response.writableEnded) this.givenUp++;
    });
    let body = '';
    try {
      for await (const chunk of request.setEncoding('utf8')) body += chunk;
    } catch {
      return; // The sender went away.
    }
    const { method = '', url: path = '', headers } = request;
    const events = method === 'POST' && path.startsWith('/topics/') ? JSON.parse(body) : [];
    const urls = events.map(({ url }: { url: string }) => url);
    const key = headers['idempotency-key'] as string | undefined;
    const arrived: Arrived = { method, path, key, body, urls, atMs: performance.now() };
    this.requests.push(arrived);
    const answer = this.#next.shift() ?? say(204);
    if (this.#holds) this.#held.push(() => answer(response, arrived));
    else answer(response, arrived);
  }
}
