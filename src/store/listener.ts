import type { Redis } from 'ioredis';
import { sleep } from '../clock.ts';
import type { RedisCluster } from './redis_cluster.ts';
import { hashTag, slotOfKey } from './tags.ts';

/** Interval of pings. Without them, a connection that was cut silently would look like one without messages. */
const PING_EVERY_MS = 30_000;
/**
 * Time before a process listens to channels of a cluster again, after an attempt has failed or a connection is lost.
 */
const LISTEN_AGAIN_MS = 100;

/**
 * An object that listens to channels of Redis. Either none of its channels has a hash tag, or all have the same one, so
 * that in a cluster they are on the same master.
 */
interface Audience {
  readonly channels: readonly string[];
  hear(channel: string, message: string): void;
  /**
   * Called each time Redis has confirmed that it now sends the messages on these channels. Earlier messages may be
   * lost, so a listener that depends on every message must look in Redis now.
   */
  listens(): void;
}

/** The connections with which a process listens to channels: a single one or, on a cluster, one to each master. */
export interface Listener {
  /**
   * Begins to listen to the channels of `audience`. Returns a function that ends this. When no audience is left, the
   * connections are closed.
   */
  listen(audience: Audience): () => void;
}

/** Listens to one Redis, over a connection that reconnects by itself. */
export class RedisListener implements Listener {
  readonly #redis: Redis;
  readonly #audiences = new Set<Audience>();
  readonly #ping: NodeJS.Timeout;

  /** Nobody else may use the connection `redis`, because a connection that listens to channels accepts only PING. */
  constructor(redis: Redis) {
    this.#redis = redis;
    tell(redis, this.#audiences);
    redis.on('ready', () => {
      for (const audience of this.#audiences) this.#subscribe(audience);
    });
    this.#ping = pinging(() => [redis]);
  }

  listen(audience: Audience): () => void {
    this.#audiences.add(audience);
    if (this.#redis.status === 'ready') this.#subscribe(audience);
    return () => {
      this.#audiences.delete(audience);
      if (this.#audiences.size > 0) return;
      clearInterval(this.#ping);
      this.#redis.disconnect();
    };
  }

  #subscribe(audience: Audience): void {
    // The error is ignored. SUBSCRIBE fails only if the connection is cut, and is sent again at the next `ready`.
    subscribe(this.#redis, audience).then(
      () => audience.listens(),
      () => {},
    );
  }
}

/** Listens to channels in a cluster, over one connection to each master that has the slot of a channel. */
export class ClusterListener implements Listener {
  readonly #cluster: RedisCluster;
  readonly #redises = new Map<string, Redis>();
  readonly #audiences = new Set<Audience>();
  readonly #ping = pinging(() => [...this.#redises.values()]);

  /** Nobody else may use `cluster`: its connections are closed when nobody listens any more. */
  constructor(cluster: RedisCluster) {
    this.#cluster = cluster;
  }

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
      this.#cluster.disconnect();
    };
  }

  /**
   * Listens to the channels of `audience`, on the master that has their slot, until `signal` is aborted. If the slot
   * moves to another master, listens there.
   */
  async #follow(audience: Audience, signal: AbortSignal): Promise<void> {
    const slot = slotOfKey(audience.channels[0] ?? '');
    while (!signal.aborted) {
      try {
        const redis = this.#connectionTo(slot);
        const lost = isLost(redis);
        await subscribe(redis, audience);
        audience.listens();
        await lost;
      } catch {
        // The error is ignored, because the loop tries again. The master cannot be reached, is not known yet, or has
        // changed.
      }
      await sleep(LISTEN_AGAIN_MS, signal);
      await this.#cluster.refresh();
    }
  }

  #connectionTo(slot: number): Redis {
    const address = this.#cluster.addressOf(slot) ?? '';
    const known = this.#redises.get(address);
    if (known) return known;
    const redis = this.#cluster.masterOf(slot).duplicate();
    redis.setMaxListeners(0); // each partition on this master adds some
    redis.on('error', () => {}); // the connections for commands report the same errors
    redis.once('end', () => this.#redises.delete(address));
    tell(redis, this.#audiences);
    this.#redises.set(address, redis);
    return redis;
  }
}

/**
 * Subscribes to the channels of an audience. Uses SSUBSCRIBE if they have a hash tag, because scripts send messages on
 * such channels by SPUBLISH (lua/store/calls.lua).
 */
function subscribe(redis: Redis, { channels }: Audience): Promise<unknown> {
  return isSharded(channels) ? redis.ssubscribe(...channels) : redis.subscribe(...channels);
}

/**
 * Returns true if these channels have a hash tag. Their messages are then sent by SPUBLISH and received by SSUBSCRIBE.
 */
export function isSharded([first = '']: readonly string[]): boolean {
  return hashTag(first) !== undefined;
}

/** Resolves when the connection no longer listens: it has ended, or the slot has moved to another master. */
function isLost(redis: Redis): Promise<void> {
  return new Promise((resolve) => {
    redis.once('end', resolve);
    redis.once('moved', resolve);
  });
}

function tell(redis: Redis, audiences: ReadonlySet<Audience>): void {
  const hear = (channel: string, message: string) => {
    for (const audience of audiences)
      if (audience.channels.includes(channel)) audience.hear(channel, message);
  };
  redis.on('message', hear);
  redis.on('smessage', hear);
}

/** Pings these connections at intervals. If a ping gets no reply, the option `socketTimeout` closes the connection. */
function pinging(redises: () => Redis[]): NodeJS.Timeout {
  return setInterval(() => {
    for (const redis of redises()) if (redis.status === 'ready') redis.ping().catch(() => {});
  }, PING_EVERY_MS);
}
