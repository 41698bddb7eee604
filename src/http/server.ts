import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { BootError } from '../errors.ts';
import { askWhenRead } from './body.ts';
import { refuseConnect, refuseMalformed } from './problems.ts';

/** How long each part of an exchange may take, and how many connections there may be. */
export const SERVER_LIMITS = {
  /** From the first byte of a request, or from the beginning of a new connection, to the end of the headers. */
  headersTimeoutMs: 10_000,
  /** To the end of the request. */
  requestTimeoutMs: 30_000,
  /** Between two requests on a connection. */
  keepAliveTimeoutMs: 75_000,
  /** Without a byte either way. Ends the connection of a client that does not read its answers. */
  silenceTimeoutMs: 120_000,
  /** How often Node checks the first two. */
  checkEveryMs: 1000,
  /** Further connections are closed at once. */
  maxConnections: 10_000,
};

export type ServerLimits = typeof SERVER_LIMITS;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The last response that is due on a connection. */
const LAST = Symbol('last');
/** Set on a connection after bytes that cannot be read. */
const REFUSED = Symbol('refused');
type Connection = Socket & { [LAST]?: ServerResponse; [REFUSED]?: true };

/** An HTTP server that can be closed without cutting off the requests under way. */
export class HttpServer {
  readonly #server: Server;
  /** Connections without a request so far. */
  readonly #unused = new Set<Duplex>();
  /** Connections that Node no longer looks after, until the responses due on them are out. */
  readonly #waiting = new Set<Connection>();

  constructor(listener: Listener, limits: Partial<ServerLimits> = {}) {
    const all = { ...SERVER_LIMITS, ...limits };
    this.#server = createServer({
      // A missing Host header is answered by the application, as a problem.
      requireHostHeader: false,
      headersTimeout: Math.min(all.headersTimeoutMs, all.requestTimeoutMs),
      requestTimeout: all.requestTimeoutMs,
      keepAliveTimeout: all.keepAliveTimeoutMs,
      connectionsCheckingInterval: all.checkEveryMs,
      maxHeaderSize: 16 * 1024,
    });
    // Node would drop headers beyond a limit of its own without a word; the application refuses them.
    this.#server.maxHeadersCount = 0;
    this.#server.maxConnections = all.maxConnections;
    this.#server.timeout = all.silenceTimeoutMs;
    this.#takeRequests(listener);
    this.#takeTheRest();
  }

  #takeRequests(listener: Listener): void {
    this.#server.on('request', (request, response) => {
      this.#note(request.socket, response);
      listener(request, response);
    });
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      this.#note(request.socket, response);
      askWhenRead(request, response);
      listener(request, response);
    });
    this.#server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      this.#note(request.socket, response);
      response.writeHead(417, { 'Content-Length': 0 }).end();
    });
  }

  /** Takes what Node makes no plain request of. */
  #takeTheRest(): void {
    this.#server.on('connect', (request: IncomingMessage, socket: Connection) =>
      this.#wait(socket, () => refuseConnect(request, socket)),
    );
    // The request begins anew, without its Upgrade header. If the header were ignored, Node's parser would pass over a malformed
    // body, and over what follows in the same packet, both without an answer.
    this.#server.on('upgrade', (request: IncomingMessage, socket: Connection, rest: Buffer) => {
      socket.unshift(rest);
      socket.unshift(withoutUpgrade(request));
      this.#wait(socket, () => this.#server.emit('connection', socket));
    });
    this.#server.on('clientError', refuse);
    const known = new WeakSet<Socket>();
    this.#server.on('connection', (socket: Socket) => {
      if (known.has(socket)) return;
      known.add(socket);
      this.#unused.add(socket);
      socket.once('close', () => this.#unused.delete(socket));
    });
  }

  /** Resolves with the port; the system chooses one if `port` is 0. Throws BootError if it cannot listen. */
  async listen(port: number): Promise<number> {
    this.#server.listen(port);
    try {
      await once(this.#server, 'listening');
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const advice = code === 'EADDRINUSE' ? `port ${port} is taken; set PORT to another` : message;
      throw new BootError(`Cannot listen: ${advice}.`, { cause });
    }
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Takes no more connections, and ends each after the response under way; those left after `graceMs` are cut. Unused connections
   * are ended here: Node does not count them as idle, and a router may have opened some in advance.
   */
  async close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#unused) socket.destroy();
    const sweep = setInterval(() => this.#server.closeIdleConnections(), 50);
    const limit = setTimeout(() => {
      this.#server.closeAllConnections();
      for (const socket of this.#waiting) socket.destroy();
    }, graceMs);
    await closed;
    clearInterval(sweep);
    clearTimeout(limit);
  }

  #note(socket: Connection, response: ServerResponse): void {
    this.#unused.delete(socket);
    socket[LAST] = response;
  }

  /** Acts on a connection that Node no longer looks after, once the responses due on it are out. */
  #wait(socket: Connection, act: () => void): void {
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

/**
 * Refuses bytes that the parser cannot read. Node reports these together with the complete requests before them, and a refusal at
 * once would take the place of their answers.
 */
function refuse(error: NodeJS.ErrnoException, socket: Connection): void {
  if (error.code === 'ECONNRESET') return void socket.destroy();
  // The parser complains again about whatever follows.
  if (socket[REFUSED]) return;
  socket[REFUSED] = true;
  afterAnswers(socket, () => refuseMalformed(error, socket));
}

/** Acts once the responses to complete requests are out; never if they end the connection. */
function afterAnswers(socket: Connection, act: () => void): void {
  const last = socket[LAST];
  const due = last?.req.complete && !last.writableFinished && !last.destroyed;
  if (!due) act();
  else
    last.once('finish', () => {
      if (socket.writable) act();
    });
}

/** The head of a request without its Upgrade header: there is no other protocol here. */
function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}
