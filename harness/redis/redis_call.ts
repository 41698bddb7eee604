import { Redis } from 'ioredis';

/** Maximum time for the answer to a call. Then the call fails. */
const ANSWER_MS = 5000;

export type RedisReply = string | number | null | RedisReply[];

/** Calls Redis over a new connection. Throws ioredis's ReplyError, or an Error if nobody answers there. */
export async function callRedis(url: string, name: string, ...args: string[]): Promise<RedisReply> {
  const connection = await RedisConnection.open(url);
  try {
    return await connection.call(name, ...args);
  } finally {
    connection.close();
  }
}

/** A connection to `unix:///path` or `redis://[:password@]host:port`. It does not reconnect. */
export class RedisConnection {
  /** Settles when the connection has ended, whoever ended it. */
  readonly closed: Promise<unknown>;
  readonly #redis: Redis;

  static async open(url: string): Promise<RedisConnection> {
    const options = {
      lazyConnect: true,
      retryStrategy: () => null,
      // Connects even to a Redis that still loads its data, and answers LOADING.
      enableReadyCheck: false,
      disableClientInfo: true,
      commandTimeout: ANSWER_MS,
    };
    const redis = url.startsWith('unix://')
      ? new Redis({ ...options, path: url.slice('unix://'.length) })
      : new Redis(url, options);
    let reason: Error | undefined;
    redis.on('error', (error: Error) => (reason = error));
    await redis.connect().catch((error: Error) => {
      throw reason ?? error;
    });
    return new RedisConnection(redis);
  }

  private constructor(redis: Redis) {
    this.#redis = redis;
    this.closed = new Promise((resolve) => redis.once('end', resolve));
  }

  async call(name: string, ...args: string[]): Promise<RedisReply> {
    return (await this.#redis.call(name, ...args)) as RedisReply;
  }

  close(): void {
    this.#redis.disconnect();
  }
}
