import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Random } from '../harness/random.ts';
import type { Known } from './grammar.ts';

const EVERY_MS = 1000;
/** Connections that are opened at a time; more than the backlog of a listening socket would be refused. */
const SOCKETS_AT_A_TIME = 50;

/** The first bytes of a slow connection, and those that follow, a few every second. */
interface Kind {
  begins: (known: Known) => string;
  drips: string;
  /** Does not read the answer. */
  deaf?: true;
}

const KINDS: Kind[] = [
  { begins: () => '', drips: '' },
  { begins: () => 'GET /topics HTTP/1.1\r\nHost: bus\r\nX: ', drips: 'y' },
  { begins: () => 'POST /topics/slow HTTP/1.1\r\nHost: bus\r\nContent-Length: 1000\r\n\r\n', drips: '{' },
  {
    begins: ({ client }) =>
      `POST /topics/slow HTTP/1.1\r\nHost: bus\r\nAuthorization: ${client}\r\nContent-Length: 1000\r\n\r\n`,
    drips: '{',
  },
  {
    begins: ({ client }) =>
      `POST /topics/slow HTTP/1.1\r\nHost: bus\r\nAuthorization: ${client}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    drips: '1\r\n{\r\n',
  },
  { begins: () => 'GET /health HTTP/1.1\r\nHost: bus\r\n\r\n', drips: '' },
  {
    begins: ({ root }) => `GET /topics HTTP/1.1\r\nHost: bus\r\nAuthorization: ${root}\r\n\r\n`.repeat(5),
    drips: '',
    deaf: true,
  },
];

/** Keeps this many slow connections open until it is stopped; replaces those that are closed. */
export class SlowConnections {
  readonly #sockets = new Set<Socket>();
  readonly #timer: NodeJS.Timeout;
  readonly #drips = new Map<Socket, string>();
  readonly #port: number;
  readonly #known: Known;
  readonly #random: Random;
  #stopped = false;
  /** Connections that the server has closed. */
  closed = 0;

  static async open(count: number, port: number, known: Known, random: Random): Promise<SlowConnections> {
    const slow = new SlowConnections(port, known, random);
    while (slow.#sockets.size < count) {
      const some = Math.min(SOCKETS_AT_A_TIME, count - slow.#sockets.size);
      await Promise.all(Array.from({ length: some }, () => slow.#open()));
    }
    return slow;
  }

  private constructor(port: number, known: Known, random: Random) {
    this.#port = port;
    this.#known = known;
    this.#random = random;
    this.#timer = setInterval(() => {
      for (const [socket, bytes] of this.#drips) if (bytes !== '' && socket.writable) socket.write(bytes);
    }, EVERY_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    const closing = [...this.#sockets].map((socket) => once(socket, 'close'));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closing);
  }

  async #open(): Promise<void> {
    const kind = this.#random.pick(KINDS);
    const socket = connect({ port: this.#port, host: '127.0.0.1' });
    this.#sockets.add(socket);
    socket.on('error', () => {}); // the close follows
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#drips.delete(socket);
      if (this.#stopped) return;
      this.closed++;
      void this.#open();
    });
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    if (kind.deaf) socket.pause();
    else socket.resume();
    socket.write(kind.begins(this.#known), 'latin1');
    this.#drips.set(socket, kind.drips);
  }
}
