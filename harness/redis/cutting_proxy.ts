import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * How a command is cut: before the request arrives, before its reply does, or by silence, which loses the reply and keeps the
 * connection.
 */
export type Cut = 'request' | 'reply' | 'silence';

/** A TCP proxy before a Redis, which can cut a connection in the middle of a command. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cutNext: { what: Cut; having: string } | undefined;
  /** How many commands were cut. */
  cuts = 0;

  /** `socketPath`: the unix socket of the Redis. */
  static async start(socketPath: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(socketPath);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  private constructor(socketPath: string) {
    this.#server = createServer((client) => {
      const redis = connect(socketPath);
      for (const socket of [client, redis]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          client.destroy();
          redis.destroy();
          this.#sockets.delete(socket);
        });
      }
      client.on('data', (bytes) => {
        if (this.#isCut('request', bytes)) client.destroy();
        else redis.write(bytes);
      });
      redis.on('data', (bytes) => {
        if (this.#isCut('reply', bytes)) client.destroy();
        else if (!this.#isCut('silence', bytes)) client.write(bytes);
      });
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts the next request or reply that contains this text; by default the next one. */
  cutNext(what: Cut, having = ''): void {
    this.#cutNext = { what, having };
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #isCut(what: Cut, bytes: Buffer): boolean {
    if (this.#cutNext?.what !== what || !bytes.includes(this.#cutNext.having)) return false;
    this.#cutNext = undefined;
    this.cuts++;
    return true;
  }
}
