import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveredEvent } from '../http/receiver.ts';
import { listenLocally } from '../processes/ports.ts';

/** Port on which bin/receive listens by default, and to which bin/start allows callbacks. */
export const RECEIVER_PORT = 9292;
/** The other port to which bin/start allows callbacks. */
export const HTTPS_PORT = 443;

export interface Delivery {
  /** The batch's id, the same on every attempt. */
  id: string;
  attempt: number;
  /** The drop notice of the delivery, as its header has it. */
  gap?: string;
  events: DeliveredEvent[];
}

/** How the receiver answers, instead of accepting and showing a batch at once. */
export interface Answer {
  status: number;
  delayMs: number;
  /** The body of the answer, which the console shows. */
  text?: string;
}

/** A sample subscriber: an HTTP server on 127.0.0.1 that accepts and prints every batch. */
export class Receiver {
  readonly port: number;
  readonly callback: string;
  readonly #server: Server;

  /**
   * Listens on `port`, or on any free one if that is 0. A batch that comes to a path in `answers` gets the answer given
   * there, and is not shown. Throws the server's error, such as EADDRINUSE.
   */
  static async start(
    port: number,
    show: (delivery: Delivery) => void,
    answers: ReadonlyMap<string, Answer> = new Map(),
  ): Promise<Receiver> {
    const server = createServer((request, response) => {
      const answer = answers.get(request.url ?? '');
      if (answer) return void answerLate(request, response, answer);
      take(request, response, show).catch((error: Error) => refuse(response, 400, error.message));
    });
    return new Receiver(server, await listenLocally(server, { port }));
  }

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    this.callback = `http://127.0.0.1:${this.port}/events`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

async function answerLate(
  request: IncomingMessage,
  response: ServerResponse,
  { status, delayMs, text }: Answer,
): Promise<void> {
  request.resume();
  await sleep(delayMs);
  response.writeHead(status, { 'content-type': 'text/plain' }).end(text);
}

async function take(
  request: IncomingMessage,
  response: ServerResponse,
  show: (delivery: Delivery) => void,
): Promise<void> {
  if (request.method !== 'POST') return refuse(response, 405, 'batches are POSTed here');
  let body = '';
  request.setEncoding('utf8');
  for await (const chunk of request) body += chunk;
  const events = JSON.parse(body);
  if (!Array.isArray(events)) return refuse(response, 400, 'a batch is a JSON array of events');
  const id = String(request.headers['webhook-id'] ?? 'without id');
  const attempt = Number(request.headers['routemaster-attempt'] ?? 1);
  const gap = request.headers['routemaster-gap'];
  show({ id, attempt, ...(gap !== undefined && { gap: String(gap) }), events });
  response.writeHead(204).end();
}

function refuse(response: ServerResponse, status: number, reason: string): void {
  if (!response.headersSent) response.writeHead(status, { 'content-type': 'text/plain' });
  response.end(`${reason}\n`);
}
