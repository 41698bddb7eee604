import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** An error that Redis itself answered, such as `LOADING Redis is loading the dataset in memory`. */
export class RedisReplyError extends Error {}

export type RedisReply = string | RedisReply[];

/**
 * Sends one command over a connection of its own, and gives the reply; see RedisConnection.
 * Throws RedisReplyError for an error reply, and the socket's error when nothing answers.
 */
export async function callRedis(url: string, ...command: string[]): Promise<RedisReply> {
  const connection = await RedisConnection.open(url);
  try {
    return await connection.call(...command);
  } finally {
    connection.close();
  }
}

/**
 * A connection for one command at a time, to `unix:///path` or `redis://[:password@]host:port`. It exists so that the
 * launcher can watch its Redis with a few lines, and without the bus's own connections, which try again for ever.
 */
export class RedisConnection {
  /** Settles when the connection has ended, whoever ended it. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;
  #received = Buffer.alloc(0);

  static async open(url: string): Promise<RedisConnection> {
    const { address, password } = parse(url);
    const socket = connect(address);
    await once(socket, 'connect');
    const connection = new RedisConnection(socket);
    if (password !== '') await connection.call('AUTH', password);
    return connection;
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#chunks = socket.iterator({ destroyOnReturn: false });
    socket.on('error', () => {}); // the iterator throws it to whoever reads
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  /** A status, integer or bulk as a string (null as ''), an array as its elements. */
  async call(...command: string[]): Promise<RedisReply> {
    this.#socket.setTimeout(5_000, () => this.#socket.destroy(new Error('Redis did not answer within 5 s')));
    const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
    this.#socket.write(`*${command.length}\r\n${parts.join('')}`);
    const reply = await this.#reply();
    this.#socket.setTimeout(0);
    return reply;
  }

  close(): void {
    this.#socket.destroy();
  }

  async #reply(): Promise<RedisReply> {
    const line = await this.#line();
    const rest = line.slice(1);
    if (line[0] === '-') throw new RedisReplyError(rest);
    if (line[0] === '$') return rest === '-1' ? '' : await this.#bulk(Number(rest));
    if (line[0] !== '*') return rest;
    const elements: RedisReply[] = [];
    for (let index = 0; index < Number(rest); index += 1) elements.push(await this.#reply());
    return elements;
  }

  async #line(): Promise<string> {
    let end = this.#received.indexOf('\r\n');
    while (end < 0) {
      await this.#more();
      end = this.#received.indexOf('\r\n');
    }
    return this.#take(end);
  }

  async #bulk(bytes: number): Promise<string> {
    while (this.#received.length < bytes + 2) await this.#more();
    return this.#take(bytes);
  }

  #take(bytes: number): string {
    const text = this.#received.toString('utf8', 0, bytes);
    this.#received = this.#received.subarray(bytes + 2);
    return text;
  }

  async #more(): Promise<void> {
    const { value, done } = await this.#chunks.next();
    if (done) throw new Error('Redis closed the connection');
    this.#received = Buffer.concat([this.#received, value]);
  }
}

function parse(url: string): {
  address: { path: string } | { host: string; port: number };
  password: string;
} {
  if (url.startsWith('unix://')) return { address: { path: url.slice('unix://'.length) }, password: '' };
  const { hostname, port, password } = new URL(url);
  return { address: { host: hostname, port: Number(port) }, password };
}
