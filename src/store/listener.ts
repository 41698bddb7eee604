import type { Redis } from 'ioredis';
import { Backoff } from '../backoff.ts';
import { sleep } from '../clock.ts';
import type { Log } from '../log.ts';
import { type Connection, isForbidden, Master } from './master.ts';
import { hashTag } from './tags.ts';

/** Interval of pings. Without them, a connection that was lost silently would look like one without messages. */
const PING_EVERY_MS = 30_000;
/**
 * Wait between the loss of a connection and the next attempt to listen. It does not grow when attempts fail, because
 * this process misses all announcements until it listens again.
 */
const LISTEN_AGAIN_MS = 100;

/**
 * An object that listens to channels of Redis. All its channels have the same hash tag, such as `{0}` in
 * `{0}:wake:main`, so in a cluster one master sends all their messages. Without a cluster, the channels may have no
 * hash tag.
 */
interface Audience {
  readonly channels: readonly string[];
  hear(channel: string, message: string): void;
  /**
   * Called each time Redis has confirmed that it now sends the messages on `channels`. Earlier messages may be lost. So
   * an object that needs every message must now look in Redis for what it missed.
   */
  listens(): void;
}

/**
 * Listens to channels of Redis, over connections of its own: one to a single Redis, and in a cluster one to each master
 * that has the slot of a channel. Replaces a lost connection by a new one.
 */
export class Listener {
  readonly #connection: Connection;
  readonly #redises = new Map<string, Redis>();
  readonly #audiences = new Set<Audience>();
  readonly #ping: NodeJS.Timeout;
  readonly #log: Log | undefined;
  #isReported = false;

  /**
   * `connection` sends the commands of this process. The Listener makes its own connections to the same Redis. The log
   * gets one warning if the ACL of Redis forbids listening.
   */
  constructor(connection: Connection, log?: Log) {
    this.#connection = connection;
    this.#log = log;
    // If a ping gets no reply, the option `socketTimeout` closes the connection.
    this.#ping = setInterval(() => {
      for (const redis of this.#redises.values())
        if (redis.status === 'ready') void redis.ping().catch(() => {});
    }, PING_EVERY_MS);
  }

  /**
   * Tells `audience` of each message on the audience's channels, until the returned function is called. When no
   * audience is left, the connections to Redis are closed.
   */
  listen(audience: Audience): () => void {
    const ending = new AbortController();
    this.#audiences.add(audience);
    void this.#follow(audience, ending.signal);
    return () => {
      ending.abort();
      this.#audiences.delete(audience);
      if (this.#audiences.size > 0) return;
      clearInterval(this.#ping);
      for (const redis of this.#redises.values()) redis.disconnect();
    };
  }

  /**
   * Listens to the channels of `audience` until `signal` is aborted. If a cluster moves the channels to another master,
   * goes on listening there.
   */
  async #follow(audience: Audience, signal: AbortSignal): Promise<void> {
    const master = new Master(this.#connection, audience.channels[0] ?? '');
    const backoff = new Backoff();
    while (!signal.aborted) {
      try {
        await listenOn(this.#connectionTo(master), audience);
        backoff.reset();
      } catch (error) {
        // The loop tries again after every error. An error of the ACL is reported, because it lasts until an operator
        // acts. All other errors are temporary: the master is away, is not known yet, or has changed.
        if (isForbidden(error)) {
          this.#report(error, audience);
          await backoff.wait(signal);
        }
      }
      await sleep(LISTEN_AGAIN_MS, signal);
      await master.refresh();
    }
  }

  #report({ message }: Error, { channels }: Audience): void {
    if (this.#isReported) return;
    this.#isReported = true;
    const command = isSharded(channels) ? 'ssubscribe' : 'subscribe';
    this.#log?.warn(
      { reason: message },
      'nothing tells this process of new work, so deliveries can begin many seconds late, and the console does not ' +
        `count it; grant the user of Redis +${command} and its channels, as the ACL in docs/operating.md does`,
    );
  }

  #connectionTo({ address = '', redis: commands }: Master): Redis {
    const known = this.#redises.get(address);
    if (known) return known;
    const redis = commands.duplicate({
      retryStrategy: () => null, // `#follow` connects again
      enableOfflineQueue: true,
      maxRetriesPerRequest: null,
    });
    redis.setMaxListeners(0); // each partition on this master adds some
    redis.on('error', () => {}); // the connections for commands report the same errors
    redis.once('end', () => this.#redises.delete(address));
    const hear = (channel: string, message: string) => {
      for (const audience of this.#audiences)
        if (audience.channels.includes(channel)) audience.hear(channel, message);
    };
    redis.on('message', hear);
    redis.on('smessage', hear);
    this.#redises.set(address, redis);
    return redis;
  }
}

/** Uses SSUBSCRIBE for channels with a hash tag, because scripts publish to them by SPUBLISH (lua/store/calls.lua). */
function subscribe(redis: Redis, { channels }: Audience): Promise<unknown> {
  return isSharded(channels) ? redis.ssubscribe(...channels) : redis.subscribe(...channels);
}

/**
 * True if these channels have a hash tag. Messages on them are then sent by SPUBLISH. The first channel decides,
 * because either all of them have a tag or none has.
 */
export function isSharded([first = '']: readonly string[]): boolean {
  return hashTag(first) !== undefined;
}

/**
 * Listens to the channels of `audience` until the connection has ended, or until the channels' slot has moved to
 * another master. Rejects if the connection fails, or the ACL forbids the channels, before listening begins.
 */
async function listenOn(redis: Redis, audience: Audience): Promise<void> {
  const { promise: lost, resolve } = Promise.withResolvers<void>();
  for (const event of ['end', 'moved']) redis.once(event, resolve);
  try {
    await subscribe(redis, audience);
    audience.listens();
    await lost;
  } finally {
    // If the handlers stayed, each new attempt to listen on the same connection would add more of them.
    for (const event of ['end', 'moved']) redis.off(event, resolve);
  }
}
