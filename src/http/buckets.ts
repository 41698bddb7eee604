import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';

const MAX_REMEMBERED = 10_000;

/**
 * Limits the rate of each caller in this process. Each caller has a token bucket: it fills up at the rate of the limit,
 * and calls take from it. A rate of 0 means no limit.
 */
export class Buckets {
  readonly perSecond: number;
  readonly #burstMs: number;
  /** When each caller's bucket will be full again, in ms of the monotonic clock. */
  readonly #fullAtMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });

  /** A full bucket holds as much as the rate allows in `burstMs`. */
  constructor(perSecond: number, burstMs: number) {
    this.perSecond = perSecond;
    this.#burstMs = burstMs;
  }

  /** Returns the ms after which the bucket is no longer empty. Returns 0 or less if it is not empty now. */
  emptyForMs(caller: string): number {
    if (this.perSecond === 0) return 0;
    return (this.#fullAtMs.get(caller) ?? 0) - clock.monotonicMs() - this.#burstMs;
  }

  /** Takes an amount out of a bucket, even if the bucket holds less. */
  take(caller: string, amount: number): void {
    if (this.perSecond === 0) return;
    const fromMs = Math.max(clock.monotonicMs(), this.#fullAtMs.get(caller) ?? 0);
    this.#fullAtMs.set(caller, fromMs + (1000 * amount) / this.perSecond);
  }
}
