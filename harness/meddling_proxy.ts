import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenLocally } from './processes/ports.ts';

/** How a proxy disturbs a message. */
export interface Meddling {
  /** Called before the message is passed on. It and all later messages in its direction wait until this has ended. */
  first?: () => unknown;
  /**
   * What happens to the message. Undefined: it is passed on. `cut`: the connection is closed. `mute`: the connection
   * stays open, and nothing more is passed on in this direction.
   */
  end?: 'cut' | 'mute';
}

export type Meddle<Message, How = Meddling> = (message: Message) => How | undefined;

/** A TCP proxy between clients and a server. It can delay, cut and mute connections at any message. */
export abstract class TcpProxy<Message, How extends Meddling = Meddling> {
  /** Decides about every message. */
  meddle: Meddle<Message, How> = () => undefined;
  /** How many messages `strike` has meddled with so far. */
  strikes = 0;
  url = '';
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  /** `toServer` connects to the server for a new client. */
  protected constructor(toServer: () => Socket) {
    this.#server = createServer({ noDelay: true }, (client) => {
      const server = toServer();
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => this.#sockets.delete(socket));
      }
      this.link(client, server);
    });
  }

  /** Has the messages of a client and of its connection to the server passed on. */
  protected abstract link(client: Socket, server: Socket): void;

  protected async listen(scheme: string): Promise<this> {
    this.url = `${scheme}://127.0.0.1:${await listenLocally(this.#server)}`;
    return this;
  }

  /**
   * Applies `meddling` to the first message that fits, and `meanwhile` to the messages before it. Resolves when
   * `meddling.first` has ended; `meddling.end` is applied after that.
   */
  strike(
    fits: (message: Message) => boolean,
    meddling: How,
    meanwhile: Meddle<Message, How> = () => undefined,
  ): Promise<void> {
    return new Promise((done) => {
      this.meddle = (message) => {
        if (!fits(message)) return meanwhile(message);
        this.meddle = () => undefined;
        this.strikes++;
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
}

/** A piece of a request or a reply, as the network delivers it. */
interface Piece {
  at: 'request' | 'reply';
  bytes: Buffer;
}

interface PieceMeddling extends Meddling {
  /**
   * Splits the piece of a request where this text begins; the piece must contain it. The part before the text is passed
   * on first. When the server begins to answer this part, `first` is called, and then the rest is passed on.
   */
  splitBefore?: string;
}

/** Fits the pieces of requests or replies that contain this text; by default all. */
export const piece =
  (at: Piece['at'], having = '') =>
  (each: Piece): boolean =>
    each.at === at && each.bytes.includes(having);

/** A proxy in front of web processes or of a Redis, whose protocol it does not understand. */
export class MeddlingProxy extends TcpProxy<Piece, PieceMeddling> {
  /** `port` returns the local port of the web process to which a new connection leads. */
  static toWeb(port: () => number): Promise<MeddlingProxy> {
    return new MeddlingProxy(() => connect({ port: port(), host: '127.0.0.1', noDelay: true })).listen(
      'http',
    );
  }

  static toRedis(socketPath: string): Promise<MeddlingProxy> {
    return new MeddlingProxy(() => connect(socketPath)).listen('redis');
  }

  protected override link(client: Socket, server: Socket): void {
    this.#pass('request', client, server);
    this.#pass('reply', server, client);
  }

  #pass(at: Piece['at'], from: Socket, to: Socket): void {
    let isMuted = false;
    let passed: Promise<void> = Promise.resolve();
    const pass = async (bytes: Buffer) => {
      if (isMuted) return;
      const { splitBefore, first, end } = this.meddle({ at, bytes }) ?? {};
      const split = splitBefore === undefined ? 0 : bytes.indexOf(splitBefore);
      if (split > 0) {
        to.write(bytes.subarray(0, split));
        await once(to, 'data');
      }
      await first?.();
      if (end === 'cut') from.destroy();
      isMuted = end === 'mute';
      if (!end) to.write(bytes.subarray(split));
    };
    from.on('data', (bytes) => {
      passed = passed.then(() => pass(bytes));
    });
    from.on('close', () => {
      // Pieces that were received before are passed on first, as in a network.
      void passed.then(() => to.destroy());
    });
  }
}
