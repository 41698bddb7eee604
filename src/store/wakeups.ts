import { EventEmitter } from 'node:events';
import type { Keyspace, Wake } from './keys.ts';
import type { Listener } from './listener.ts';

const KINDS: readonly Wake[] = ['main', 'aux', 'due', 'suspect'];

/**
 * Tells its listeners what the scripts of one partition announce, such as new jobs. When a lost connection is back,
 * calls all listeners, because they may have missed announcements. Redis does not promise that an announcement arrives,
 * so each listener must also look in Redis at an interval.
 */
export class Wakeups {
  readonly #listeners = new EventEmitter<Record<Wake, []>>();
  /** Stops listening to what the scripts announce. Calling this again does no harm. */
  readonly close: () => void;

  constructor(listener: Listener, keys: Keyspace) {
    const kinds = new Map(KINDS.map((kind) => [keys.wake(kind), kind]));
    this.close = listener.listen({
      channels: [...kinds.keys()],
      hear: (channel) => {
        const kind = kinds.get(channel);
        if (kind) this.#listeners.emit(kind);
      },
      listens: () => {
        for (const kind of KINDS) this.#listeners.emit(kind);
      },
    });
  }

  on(wake: Wake, listener: () => void): void {
    this.#listeners.on(wake, listener);
  }
}
