import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What becomes of a command: it does not arrive; or its reply does not, the connection cut; or nothing ever comes. */
export type Cut = 'request' | 'reply' | 'silence';

/** A TCP proxy before a Redis that can cut the connection in the middle of a command. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cutNext: { what: Cut; having: string } | undefined;

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
        if (this.#cuts('request', bytes)) client.destroy();
        else redis.write(bytes);
      });
      redis.on('data', (bytes) => {
        if (this.#cuts('reply', bytes)) client.destroy();
        else if (!this.#cuts('silence', bytes)) client.write(bytes);
      });
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts the next request or reply that has this text in it; by default any, whichever command's it is. */
  cutNext(what: Cut, having = ''): void {
    this.#cutNext = { what, having };
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #cuts(what: Cut, bytes: Buffer): boolean {
    if (this.#cutNext?.what !== what || !bytes.includes(this.#cutNext.having)) return false;
    this.#cutNext = undefined;
    return true;
  }
}
