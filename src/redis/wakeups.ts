import type { Redis } from 'ioredis';
import type { Keyspace } from './keys.ts';

/** What scripts announce: a queue has an instant job, or the next deadline came nearer. */
export type Wake = 'main' | 'aux' | 'due';

const ALL: readonly Wake[] = ['main', 'aux', 'due'];

/**
 * Listens for what scripts announce. An announcement can be lost while the connection is away, so all are
 * taken as made whenever it comes back, and who waits should look by itself now and then.
 */
export class Wakeups {
  readonly #redis: Redis;
  readonly #listeners = new Map<Wake, Set<() => void>>(ALL.map((wake) => [wake, new Set()]));

  /** Takes over a connection of its own: one that has subscribed takes no other commands. */
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
    if (redis.status === 'ready') listen();
  }

  /** Calls `listener` at every announcement of `wake`, until the returned function is called. */
  on(wake: Wake, listener: () => void): () => void {
    this.#listeners.get(wake)?.add(listener);
    return () => this.#listeners.get(wake)?.delete(listener);
  }

  close(): void {
    this.#redis.disconnect();
  }

  #tell(wake: Wake): void {
    for (const listener of this.#listeners.get(wake) ?? []) listener();
  }
}
