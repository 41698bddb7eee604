import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenLocally } from '../processes/ports.ts';

/** How a proxy disturbs a piece of a request or a reply. */
export interface Meddling {
  /** Called before the piece is passed on. The piece and all later pieces of its connection wait for it. */
  first?: () => unknown;
  /**
   * What happens to the piece. Undefined: it is passed on. `cut`: the connection is closed. `mute`: the connection
   * stays open, and nothing is passed on any more.
   */
  end?: 'cut' | 'mute';
}

type Meddle = (at: 'request' | 'reply') => Meddling | undefined;

/** A TCP proxy between HTTP clients and web processes, which can delay, cut and mute connections. */
export class MeddlingProxy {
  /** Decides about every piece. */
  meddle: Meddle = () => undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;

  /** `port` returns the local port to which a new connection leads. */
  static async start(port: () => number): Promise<MeddlingProxy> {
    const proxy = new MeddlingProxy(port);
    proxy.#port = await listenLocally(proxy.#server);
    return proxy;
  }

  private constructor(port: () => number) {
    this.#server = createServer({ noDelay: true }, (client) => {
      const web = connect({ port: port(), host: '127.0.0.1', noDelay: true });
      this.#pass('request', client, web);
      this.#pass('reply', web, client);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Meddles with the next piece of a request or a reply only. Resolves when `first` is done. */
  strike(at: 'request' | 'reply', meddling: Meddling): Promise<void> {
    return new Promise((done) => {
      this.meddle = (place) => {
        if (place !== at) return undefined;
        this.meddle = () => undefined;
        const first = async () => {
          await meddling.first?.();
          done();
        };
        return { ...meddling, first };
      };
    });
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #pass(at: 'request' | 'reply', from: Socket, to: Socket): void {
    this.#sockets.add(from);
    let isMuted = false;
    let passed: Promise<void> = Promise.resolve();
    const pass = async (bytes: Buffer) => {
      if (isMuted) return;
      const meddling = this.meddle(at);
      await meddling?.first?.();
      if (meddling?.end === 'cut') from.destroy();
      isMuted = meddling?.end === 'mute';
      if (!meddling?.end) to.write(bytes);
    };
    from.on('data', (bytes) => {
      passed = passed.then(() => pass(bytes));
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      // Pieces that were received before are passed on first, as in a network.
      void passed.then(() => to.destroy());
    });
  }
}
