import { Backoff } from '../backoff.ts';
import { Bell } from '../delivering/bell.ts';
import { promoteDue } from '../delivering/queue.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import type { Wakeups } from '../store/wakeups.ts';

/** Makes scheduled jobs instant when due. Sleeps until the next deadline or an announced earlier one. */
export class Scheduler {
  readonly #partition: Partition;
  readonly #log: Log;
  readonly #maxSleepMs: number;
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  /** `maxSleepMs` limits the sleep, as an announcement may be lost. */
  constructor(partition: Partition, wakeups: Wakeups, maxSleepMs: number, log: Log) {
    this.#partition = partition;
    this.#maxSleepMs = maxSleepMs;
    this.#log = log;
    wakeups.on('due', () => this.#bell.ring());
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
    while (!this.#stopping.signal.aborted) {
      const sleepMs = await this.#promote();
      if (sleepMs > 0) await this.#bell.wait(sleepMs);
    }
  }

  /** Promotes due jobs. Returns the ms to sleep, rounded up so that the next call is not too early. */
  async #promote(): Promise<number> {
    try {
      const { nextDueMs = this.#maxSleepMs } = await promoteDue(this.#partition);
      this.#backoff.reset();
      return Math.ceil(Math.min(nextDueMs, this.#maxSleepMs));
    } catch (error) {
      this.#log.warn({ reason: reasonOf(error) }, 'cannot promote jobs; trying again');
      await this.#backoff.wait(this.#stopping.signal);
      return 0;
    }
  }
}
