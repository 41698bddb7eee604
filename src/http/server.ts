import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { BootError } from '../errors.ts';
import { http } from '../node_http.ts';
import { askWhenRead } from './body.ts';
import { Connection } from './connection.ts';
import {
  afterAnswers,
  CONNECTION,
  type HttpSocket,
  refuseConnect,
  refuseUnreadable,
  withoutUpgrade,
} from './http_socket.ts';
import { ReadingMode } from './reading_mode.ts';
import { WorkBudget } from './work_budget.ts';

export const SERVER_LIMITS = {
  /**
   * Maximum time until the headers of a request are complete. The time runs from the first byte of the request or, for
   * the first request of a connection, from the opening of the connection.
   */
  headersTimeoutMs: 10_000,
  keepAliveTimeoutMs: 75_000,
  /** Maximum time without a byte in either direction. It ends connections whose callers do not read their answers. */
  silenceTimeoutMs: 120_000,
  /** Interval at which Node looks for headers and requests that took too long. */
  checkEveryMs: 1000,
};

/** Settings of the operator. `requestTimeoutMs` is the maximum time from the first byte of a request to the last. */
type ServerSettings = Pick<Config, 'requestTimeoutMs' | 'maxConnections'>;
export type ServerLimits = typeof SERVER_LIMITS & ServerSettings;

/** Error codes of a server that cannot listen, because this machine does not have the address or the host name. */
const NOT_HERE = /^(EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN)$/;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Node warns of a leak if a socket has more listeners than this. CallLimits adds one for each call of the connection,
 * and removes it soon after the answer.
 */
const MAX_LISTENERS = 32;
/** Interval at which a closing server looks for idle connections. */
export const SWEEP_MS = 50;
/**
 * A closing server still accepts the connections that the kernel has made already, but for at most this time. 64 such
 * connections take about 10 ms.
 */
const ACCEPT_MS = 500;

/** An HTTP server that finishes the requests under way before it closes. */
export class HttpServer {
  readonly #server: Server;
  readonly #open = new Set<HttpSocket>();
  /**
   * For each connection that was idle at the last call of `#closeIdle`: the number of bytes that it had received by
   * then. If there are no more bytes at the next call, the connection is closed.
   */
  readonly #quiet = new WeakMap<HttpSocket, number>();
  /**
   * Connections whose CONNECT or Upgrade request waits until the responses to earlier requests are sent. Node's
   * `closeAllConnections` no longer knows them, so `close` of this class ends them.
   */
  readonly #waiting = new Set<HttpSocket>();
  readonly #budget: WorkBudget;
  readonly #mode = new ReadingMode();
  /** Undefined until the server begins to close. Resolves when it accepts no more connections. */
  #allAccepted: Promise<void> | undefined;

  constructor(listener: Listener, limits: Partial<ServerLimits> & ServerSettings, budget = new WorkBudget()) {
    this.#budget = budget;
    const all = { ...SERVER_LIMITS, ...limits };
    this.#server = http.createServer({
      // With `true`, Node itself would refuse a request without a Host header, and send no problem document. The
      // pipeline refuses such a request with a problem document.
      requireHostHeader: false,
      headersTimeout: Math.min(all.headersTimeoutMs, all.requestTimeoutMs),
      requestTimeout: all.requestTimeoutMs,
      keepAliveTimeout: all.keepAliveTimeoutMs,
      connectionsCheckingInterval: all.checkEveryMs,
      maxHeaderSize: 16 * 1024,
    });
    // 0 means no limit. With a limit, Node would silently drop the headers beyond it. The pipeline refuses a request
    // with too many headers instead.
    this.#server.maxHeadersCount = 0;
    this.#server.maxConnections = all.maxConnections;
    this.#server.timeout = all.silenceTimeoutMs;
    // A client such as `nc -N` ends its side of the connection after its last request. Without this property, which
    // @types/node lacks, Node would then end its own side too, and the answers would be lost.
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    this.#takeRequests(listener);
    this.#takeTheRest();
  }

  #takeRequests(listener: Listener): void {
    this.#server.on('request', (request, response) =>
      this.#begin(request, response, () => listener(request, response)),
    );
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
      this.#begin(request, response, () => {
        askWhenRead(request, response);
        listener(request, response);
      }),
    );
    this.#server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) =>
      this.#begin(request, response, () => response.writeHead(417, { 'Content-Length': 0 }).end()),
    );
  }

  #takeTheRest(): void {
    this.#server.on('connect', (_, socket: HttpSocket) => {
      socket[CONNECTION]?.detach();
      this.#wait(socket, () => refuseConnect(socket));
    });
    // A request with an Upgrade header is put back into the socket without this header, and parsed again, because the
    // bus serves no other protocol. Without this listener, Node 24 would ignore the header too, but drop the bytes that
    // came behind the request in the same read. If another request began in these bytes, the rest of it would be parsed
    // as a request of its own (request smuggling).
    this.#server.on('upgrade', (request: IncomingMessage, socket: HttpSocket, rest: Buffer) => {
      socket.unshift(socket[CONNECTION]?.detach() ?? Buffer.alloc(0));
      socket.unshift(rest);
      socket.unshift(withoutUpgrade(request));
      this.#wait(socket, () => this.#server.emit('connection', socket));
    });
    this.#server.on('clientError', refuseUnreadable);
    this.#server.on('connection', (socket: HttpSocket) => {
      socket[CONNECTION] = new Connection(socket, this.#budget, this.#mode);
      if (this.#open.has(socket)) return;
      this.#open.add(socket);
      socket.setMaxListeners(MAX_LISTENERS);
      socket.once('close', () => this.#open.delete(socket));
    });
  }

  /** Resolves with the port, which the system chooses if `port` is 0. Throws BootError if the server cannot listen. */
  async listen(port: number, host?: string): Promise<number> {
    this.#server.listen({ port, ...(host !== undefined && { host }) });
    try {
      await once(this.#server, 'listening');
    } catch (cause) {
      const { code = '', message } = cause as NodeJS.ErrnoException;
      const isTaken = code === 'EADDRINUSE';
      const isElsewhere = NOT_HERE.test(code);
      const advice = isElsewhere
        ? `HOST is ${host}, which is no address of this machine; set it to one, or to 0.0.0.0 for all`
        : isTaken
          ? `port ${port} is taken; set PORT to another`
          : `${message} (HOST and PORT say where)`;
      // Both errors may be temporary: a process that is stopping may still use the port, or the address may move to
      // this machine later.
      throw new BootError(`Cannot listen: ${advice}.`, { cause, mayPass: isTaken || isElsewhere });
    }
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Stops accepting connections, except those that the kernel has made already. Closes all connections:
   *
   * - An idle connection: when no byte has come for SWEEP_MS, because a byte may be the start of a new request.
   * - Any other connection: after the response to its last request, or after `graceMs` at the latest. The response says
   *   `Connection: close`, if its headers have not been sent yet.
   */
  async close(graceMs: number): Promise<void> {
    const { promise, resolve: beginRequests } = Promise.withResolvers<void>();
    this.#allAccepted = promise;
    for (const socket of this.#open) socket[CONNECTION]?.endWithLast();
    this.#closeIdle();
    await this.#acceptWaiting();
    // Node's `close` calls `closeIdleConnections`, which would cut off responses that are written but not sent yet.
    // `#closeIdle` replaces it, and also closes connections that never had a request, such as those that routers open
    // in advance.
    this.#server.closeIdleConnections = () => {};
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    beginRequests();
    const sweep = setInterval(() => this.#closeIdle(), SWEEP_MS);
    const limit = setTimeout(() => {
      this.#server.closeAllConnections();
      for (const socket of this.#waiting) socket.destroy();
    }, graceMs);
    await closed;
    clearInterval(sweep);
    clearTimeout(limit);
  }

  /**
   * Accepts the connections that the kernel has made already, because their callers may have sent requests. Node
   * accepts one connection in each turn of the event loop. When a turn brings no new connection, all are accepted.
   * Waits for this turn, but at most ACCEPT_MS. Meanwhile no request on these connections is handled, so that the turns
   * stay short.
   */
  async #acceptWaiting(): Promise<void> {
    const limitMs = clock.monotonicMs() + ACCEPT_MS;
    let hasAccepted = true;
    const note = () => {
      hasAccepted = true;
    };
    this.#server.on('connection', note);
    // Node may already have looked for connections in the present turn, so the loop begins with the next turn.
    await nextTurn();
    while (hasAccepted && clock.monotonicMs() < limitMs) {
      hasAccepted = false;
      await nextTurn();
    }
    this.#server.off('connection', note);
  }

  #begin({ socket }: IncomingMessage, response: ServerResponse, start: () => void): void {
    const connection = (socket as HttpSocket)[CONNECTION];
    const allAccepted = this.#allAccepted;
    if (allAccepted) {
      // If the response to an earlier request ends the connection, this request cannot be answered, and is ignored.
      if (connection?.last?.shouldKeepAlive === false) return;
      response.shouldKeepAlive = false;
    }
    connection?.begin(response, allAccepted ? () => void allAccepted.then(start) : start);
  }

  /**
   * Closes each connection that was idle at the last call of this method, and has received no byte since. A byte may be
   * the start of a request.
   */
  #closeIdle(): void {
    for (const socket of this.#open) {
      if (!socket.writable || !socket[CONNECTION]?.isIdle) this.#quiet.delete(socket);
      else if (this.#quiet.get(socket) === socket.bytesRead) socket.destroy();
      else this.#quiet.set(socket, socket.bytesRead);
    }
  }

  /**
   * Calls `act` when the responses to all requests before a CONNECT or Upgrade request have been sent. Until then,
   * closes the socket on an error or a timeout, because Node no longer does so.
   */
  #wait(socket: HttpSocket, act: () => void): void {
    const cut = () => socket.destroy();
    const forget = () => this.#waiting.delete(socket);
    this.#waiting.add(socket);
    socket.on('error', cut).on('timeout', cut).on('close', forget);
    afterAnswers(socket, () => {
      socket.off('error', cut).off('timeout', cut).off('close', forget);
      forget();
      act();
    });
  }
}
