import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import type { Keyspace } from './keys.ts';

/** What scripts announce: a queue has an instant job, or a job is scheduled ahead of all others. */
export type Wake = 'main' | 'aux' | 'due';

/** A connection that was cut silently looks like one on which nothing is announced. */
const PING_EVERY_MS = 30_000;

/**
 * Listens for the announcements of scripts. Those made while the connection is down are lost, so every kind counts as
 * announced when the connection comes back, and listeners must also look by themselves now and then.
 */
export class Wakeups {
  readonly #redis: Redis;
  readonly #ping: NodeJS.Timeout;
  readonly #listeners = new EventEmitter<Record<Wake, []>>();

  /** Owns `redis` from now on: a connection that has subscribed takes no other command than PING. */
  constructor(redis: Redis, keys: Keyspace) {
    this.#redis = redis;
    redis.on('message', (_channel: string, wake: string) => this.#listeners.emit(wake as Wake));
    // Only after Redis has confirmed the subscription: what it announces before that is lost.
    // SUBSCRIBE fails only if the connection is cut again; the next `ready` repeats it.
    const listen = () =>
      redis.subscribe(keys.wakeChannel).then(
        () => this.#announceAll(),
        () => {},
      );
    redis.on('ready', listen);
    // A ping that is not answered within the connection's time limit cuts it, and ioredis connects anew.
    this.#ping = setInterval(() => {
      if (redis.status === 'ready') redis.ping().catch(() => {});
    }, PING_EVERY_MS);
    if (redis.status === 'ready') listen();
  }

  /** Calls `listener` at every announcement of `wake`. */
  on(wake: Wake, listener: () => void): void {
    this.#listeners.on(wake, listener);
  }

  close(): void {
    clearInterval(this.#ping);
    this.#redis.disconnect();
  }

  #announceAll(): void {
    for (const wake of ['main', 'aux', 'due'] as const) this.#listeners.emit(wake);
  }
}
