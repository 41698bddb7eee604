import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { BootError } from '../errors.ts';
import { withContinue } from './expectation.ts';
import { refuseConnect, refuseMalformed } from './problems.ts';
import { withoutUpgrade } from './upgrade.ts';

/** How long each part of an exchange may take, and how many there may be at a time. */
export interface ServerLimits {
  /** Of a request that has begun, or of a new connection on which none has: until all headers are there. */
  headersTimeoutMs: number;
  /** Until the whole request is there. */
  requestTimeoutMs: number;
  /** Between two requests on a connection. */
  keepAliveTimeoutMs: number;
  /** Without a byte either way: ends the connections of those who do not read their answers. */
  silenceTimeoutMs: number;
  /** How often the first two are looked at. */
  checkEveryMs: number;
  /** What is beyond is closed at once. */
  maxConnections: number;
}

export const SERVER_LIMITS: ServerLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 75_000,
  silenceTimeoutMs: 120_000,
  checkEveryMs: 1000,
  maxConnections: 10_000,
};

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The last answer that is due on a connection. */
const LAST = Symbol('last');
/** Something came on it that cannot be read. */
const REFUSED = Symbol('refused');
type Connection = Socket & { [LAST]?: ServerResponse; [REFUSED]?: true };

/** An HTTP server that can be closed without cutting off the requests under way. */
export class HttpServer {
  readonly #server: Server;
  /** Connections on which no request has come yet. */
  readonly #unused = new Set<Duplex>();
  /** Connections that Node has let go of, until what is due on them is answered. */
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
    // Node would drop what is beyond a limit of its own without a word: we refuse it.
    this.#server.maxHeadersCount = 0;
    this.#server.maxConnections = all.maxConnections;
    this.#server.timeout = all.silenceTimeoutMs;
    this.#server.on('request', (request, response) => {
      this.#note(request.socket, response);
      listener(request, response);
    });
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      this.#note(request.socket, response);
      listener(withContinue(request, response), response);
    });
    this.#server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      this.#note(request.socket, response);
      response.writeHead(417, { 'Content-Length': 0 }).end();
    });
    this.#server.on('connect', (request: IncomingMessage, socket: Connection) =>
      this.#wait(socket, () => refuseConnect(request, socket)),
    );
    // Ignored, Node's parser would pass over what is malformed in the body, and over what follows in the same packet, both
    // without an answer. So the request begins anew.
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

  /** Resolves with the port, which the system chooses if `port` is 0. Throws BootError where it cannot listen. */
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
   * Takes no more connections, and ends each after the answer that is under way; those left after `graceMs` are cut.
   * Node does not count connections that were never used as idle, and a router may have opened some in advance.
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

  /** Acts on a connection that Node has let go of, and does not look after any more, when what is due on it is answered. */
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
 * Refuses what the parser cannot read, but behind the answers to the requests that came whole before it: Node tells of
 * the one and the others in one go, and a refusal at once would take their place.
 */
function refuse(error: NodeJS.ErrnoException, socket: Connection): void {
  if (error.code === 'ECONNRESET') return void socket.destroy();
  // The parser complains once more of whatever follows.
  if (socket[REFUSED]) return;
  socket[REFUSED] = true;
  afterAnswers(socket, () => refuseMalformed(error, socket));
}

/** Acts when the answers to the requests that came whole are out. Where they end the connection, it has no place. */
function afterAnswers(socket: Connection, act: () => void): void {
  const last = socket[LAST];
  const due = last?.req.complete && !last.writableFinished && !last.destroyed;
  if (!due) act();
  else
    last.once('finish', () => {
      if (socket.writable) act();
    });
}
