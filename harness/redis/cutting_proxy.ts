import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenLocally } from '../processes/ports.ts';

/** The thing to cut: a `request`, its `reply`, or with `silence` the reply while the connection stays open. */
export type Cut = 'request' | 'reply' | 'silence';

/** A TCP proxy in front of a Redis. It can cut a connection during a command, and split a pipeline. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;
  #cutNext: { what: Cut; having: string } | undefined;
  #splitNext: { before: string; then: () => Promise<unknown> } | undefined;
  /** Number of commands that were cut. */
  cuts = 0;

  /** Starts a proxy for the Redis at this unix socket. */
  static async start(socketPath: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(socketPath);
    proxy.#port = await listenLocally(proxy.#server);
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
        else void this.#forward(bytes, redis);
      });
      redis.on('data', (bytes) => {
        if (this.#isCut('reply', bytes)) client.destroy();
        else if (!this.#isCut('silence', bytes)) client.write(bytes);
      });
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** Cuts the next request or reply that contains the text `having`; by default any. */
  cutNext(what: Cut, having = ''): void {
    this.#cutNext = { what, having };
  }

  /** Splits the next pipeline before this text: sends the first part, awaits a reply and `then`, and sends the rest. */
  splitNext(before: string, then: () => Promise<unknown>): void {
    this.#splitNext = { before, then };
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #forward(bytes: Buffer, redis: Socket): Promise<void> {
    const split = this.#splitNext;
    const at = split ? bytes.indexOf(split.before) : -1;
    if (!split || at < 0) {
      redis.write(bytes);
      return;
    }
    this.#splitNext = undefined;
    redis.write(bytes.subarray(0, at));
    await once(redis, 'data');
    await split.then();
    redis.write(bytes.subarray(at));
  }

  #isCut(what: Cut, bytes: Buffer): boolean {
    if (this.#cutNext?.what !== what || !bytes.includes(this.#cutNext.having)) return false;
    this.#cutNext = undefined;
    this.cuts++;
    return true;
  }
}
