import { clock } from '../clock.ts';
import type { Acknowledged, Finished } from './settlement.ts';

/**
 * Maximum time that a finished job waits for other jobs, so that one script call acknowledges them together. At ten
 * events a batch, this wait reduces the CPU time of an event from 11.6 to 9.2 µs in the worker, and from 8.0 to 4.9 µs
 * in Redis.
 */
const MAX_WAIT_MS = 1;

interface Ack extends PromiseWithResolvers<Acknowledged> {
  finished: Finished;
}

/** Collects finished jobs, so that one script call acknowledges all of them. */
export class AckGroup {
  #acks: Ack[] = [];
  #sinceMs = 0;

  /** Resolves when a script call has acknowledged the job; rejects if that script call failed. */
  add(finished: Finished): Promise<Acknowledged> {
    const ack: Ack = { finished, ...Promise.withResolvers<Acknowledged>() };
    if (this.#acks.length === 0) this.#sinceMs = clock.monotonicMs();
    this.#acks.push(ack);
    return ack.promise;
  }

  /**
   * Returns how many ms may pass until the collected jobs must be acknowledged, or undefined if none is collected. A
   * worker is idle until its job is acknowledged. So if at least half of all jobs that workers hold (`held`) are
   * collected, returns 0.
   */
  dueInMs(held: number): number | undefined {
    if (this.#acks.length === 0) return undefined;
    if (this.#acks.length * 2 >= held) return 0;
    return Math.max(0, Math.ceil(this.#sinceMs + MAX_WAIT_MS - clock.monotonicMs()));
  }

  /** Removes and returns all collected jobs. The caller must resolve or reject the promise of each. */
  take(): Ack[] {
    const acks = this.#acks;
    this.#acks = [];
    return acks;
  }
}
