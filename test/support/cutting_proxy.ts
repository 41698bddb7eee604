import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy before a Redis that can cut the connection in the middle of a command. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cutNext: 'request' | 'reply' | undefined;

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
      client.on('data', (bytes) => this.#cuts('request', client) || redis.write(bytes));
      redis.on('data', (bytes) => this.#cuts('reply', client) || client.write(bytes));
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The next request does not arrive, or arrives and its reply does not. */
  cutNext(what: 'request' | 'reply'): void {
    this.#cutNext = what;
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #cuts(what: 'request' | 'reply', client: Socket): boolean {
    if (this.#cutNext !== what) return false;
    this.#cutNext = undefined;
    client.destroy();
    return true;
  }
}
