import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { BootError } from '../errors.ts';
import { refuseMalformed } from './problems.ts';

/** An HTTP server that can be closed without cutting off the requests under way. */
export class HttpServer {
  readonly #server: Server;
  /** Connections on which no request has come yet. */
  readonly #unused = new Set<Socket>();

  constructor(listener: RequestListener) {
    // A missing Host header is answered by the application, as a problem.
    const options = { requireHostHeader: false, requestTimeout: 30_000, keepAliveTimeout: 75_000 };
    this.#server = createServer(options, listener);
    this.#server.on('clientError', refuseMalformed);
    this.#server.on('connection', (socket: Socket) => {
      this.#unused.add(socket);
      socket.once('close', () => this.#unused.delete(socket));
    });
    this.#server.on('request', ({ socket }) => this.#unused.delete(socket));
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
    const limit = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await closed;
    clearInterval(sweep);
    clearTimeout(limit);
  }
}
