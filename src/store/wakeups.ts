import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import type { Keyspace, Wake } from './keys.ts';

const KINDS: readonly Wake[] = ['main', 'aux', 'due', 'suspect'];

/**
 * Interval of pings. They detect a connection that was cut silently, which otherwise looks like one without
 * announcements.
 */
const PING_EVERY_MS = 30_000;

/**
 * Listens for the announcements of scripts. Announcements made while the connection is down are lost, so all
 * listeners are called when the connection is back. Listeners must also look for work at an interval.
 */
export class Wakeups {
  readonly #redis: Redis;
  readonly #ping: NodeJS.Timeout;
  readonly #listeners = new EventEmitter<Record<Wake, []>>();

  /** Nobody else may use `redis`, because a subscribed connection accepts only PING. `close` closes it. */
  constructor(redis: Redis, keys: Keyspace) {
    this.#redis = redis;
    const kinds = new Map(KINDS.map((kind) => [keys.wake(kind), kind]));
    redis.on('message', (channel: string) => {
      const kind = kinds.get(channel);
      if (kind) this.#listeners.emit(kind);
    });
    // Calls all listeners once Redis has confirmed the subscription, because earlier announcements were lost.
    // Errors are ignored: SUBSCRIBE fails only if the connection is cut, and the next `ready` repeats it.
    const listen = () =>
      redis.subscribe(...kinds.keys()).then(
        () => this.#announceAll(),
        () => {},
      );
    redis.on('ready', listen);
    // If a ping gets no reply, `socketTimeout` closes the connection, and ioredis reconnects.
    this.#ping = setInterval(() => {
      if (redis.status === 'ready') redis.ping().catch(() => {});
    }, PING_EVERY_MS);
    if (redis.status === 'ready') listen();
  }

  on(wake: Wake, listener: () => void): void {
    this.#listeners.on(wake, listener);
  }

  close(): void {
    clearInterval(this.#ping);
    this.#redis.disconnect();
  }

  #announceAll(): void {
    for (const kind of KINDS) this.#listeners.emit(kind);
  }
}
