import { Patience } from '../backoff.ts';
import { Bell } from '../delivering/bell.ts';
import { promoteDue } from '../delivering/queue.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import type { Wakeups } from '../store/wakeups.ts';

/** A deadline that is no further away follows closely on what was before. */
const CLOSE_MS = 10;
/** How often it may ask in the last ms before a deadline. */
const MOST_EARLY = 20;

/** Makes scheduled jobs instant when they are due: sleeps until the next deadline, or until an earlier one is announced. */
export class Scheduler {
  readonly #store: Store;
  readonly #wakeups: Wakeups;
  readonly #log: Log;
  readonly #longestSleepMs: number;
  readonly #bell = new Bell();
  readonly #patience = new Patience();
  readonly #stopping = new AbortController();
  /** How often it may ask too early, until it sleeps for longer again. */
  #early = 0;
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

  /** Answers how long to sleep. */
  async #promote(): Promise<number> {
    try {
      const { nextDueMs = this.#longestSleepMs } = await promoteDue(this.#store);
      this.#patience.reset();
      return this.#wholeMs(Math.min(nextDueMs, this.#longestSleepMs));
    } catch (error) {
      this.#log.warn(
        { reason: error instanceof Error ? error.message : error },
        'cannot promote jobs; trying again',
      );
      await this.#patience.wait(this.#stopping.signal);
      return 0;
    }
  }

  /**
   * Timers come later by up to one ms: so to the ms before, and what is left goes by in some calls. But not where deadlines are
   * close to each other: with one in every ms that was 8,000 calls a second, a third of Redis and half a core; it is 800.
   */
  #wholeMs(sleepMs: number): number {
    if (sleepMs >= CLOSE_MS) this.#early = MOST_EARLY;
    else if (this.#early === 0) return Math.ceil(sleepMs);
    if (sleepMs > 0 && sleepMs < 1) this.#early--;
    return Math.floor(sleepMs);
  }
}
