import type { Log } from '../log.ts';
import { promoteDue } from '../models/queue.ts';
import type { Store } from '../redis/store.ts';
import type { Wakeups } from '../redis/wakeups.ts';
import { Bell } from './bell.ts';
import { Patience } from './patience.ts';

/** Makes scheduled jobs instant when they are due: sleeps until the next deadline, or until an earlier one is announced. */
export class Scheduler {
  readonly #store: Store;
  readonly #wakeups: Wakeups;
  readonly #log: Log;
  readonly #longestSleepMs: number;
  readonly #bell = new Bell();
  readonly #patience = new Patience();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  /** `longestSleepMs`: an announcement may be lost, so it looks at least this often. */
  constructor(store: Store, wakeups: Wakeups, longestSleepMs: number, log: Log) {
    this.#store = store;
    this.#wakeups = wakeups;
    this.#longestSleepMs = longestSleepMs;
    this.#log = log;
  }

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#bell.ring();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const forget = this.#wakeups.on('due', () => this.#bell.ring());
    while (!this.#stopping.signal.aborted) {
      const sleepMs = await this.#promote();
      if (sleepMs > 0) await this.#bell.wait(sleepMs);
    }
    forget();
  }

  /** Answers how long to sleep: whole ms, as timers come later by up to one. What is left of one goes by on the way to Redis. */
  async #promote(): Promise<number> {
    try {
      const { nextDueMs = this.#longestSleepMs } = await promoteDue(this.#store);
      this.#patience.reset();
      return Math.floor(Math.min(nextDueMs, this.#longestSleepMs));
    } catch (error) {
      this.#log.warn(
        { reason: error instanceof Error ? error.message : error },
        'cannot promote jobs; trying again',
      );
      await this.#patience.wait(this.#stopping.signal);
      return 0;
    }
  }
}
