import type { Redis } from 'ioredis';
import type { Keyspace } from './keys.ts';

/** What scripts announce: a queue has an instant job, or the next deadline came nearer. */
export type Wake = 'main' | 'aux' | 'due';

/** A connection that was cut without a word looks like one on which nothing happens. */
const PING_EVERY_MS = 30_000;

const ALL: readonly Wake[] = ['main', 'aux', 'due'];

/**
 * Listens for what scripts announce. An announcement can be lost while the connection is away, so all are
 * taken as made whenever it comes back, and who waits should look by itself now and then.
 */
export class Wakeups {
  readonly #redis: Redis;
  readonly #ping: NodeJS.Timeout;
  readonly #listeners = new Map<Wake, Set<() => void>>(ALL.map((wake) => [wake, new Set()]));

  /** Takes over a connection of its own: one that has subscribed takes no commands but pings. */
  constructor(redis: Redis, keys: Keyspace) {
    this.#redis = redis;
    redis.on('message', (_channel: string, wake: string) => this.#tell(wake as Wake));
    const tellAll = () => {
      for (const wake of ALL) this.#tell(wake);
    };
    // Told once Redis has us on its list, and not before: what it announces in between is lost.
    // Fails only if the connection is cut again.
    const listen = () => redis.subscribe(keys.wakeChannel).then(tellAll, () => {});
    redis.on('ready', listen);
    // No answer within the connection's time limit ends it; it is then made anew.
    this.#ping = setInterval(() => {
      if (redis.status === 'ready') redis.ping().catch(() => {});
    }, PING_EVERY_MS);
    if (redis.status === 'ready') listen();
  }

  /** Calls `listener` at every announcement of `wake`, until the returned function is called. */
  on(wake: Wake, listener: () => void): () => void {
    this.#listeners.get(wake)?.add(listener);
    return () => this.#listeners.get(wake)?.delete(listener);
  }

  close(): void {
    clearInterval(this.#ping);
    this.#redis.disconnect();
  }

  #tell(wake: Wake): void {
    for (const listener of this.#listeners.get(wake) ?? []) listener();
  }
}
