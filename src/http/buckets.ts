import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';

const MAX_REMEMBERED = 10_000;

/** A token bucket for each caller, in this process. A rate of 0 means no limit. */
export class Buckets {
  readonly perSecond: number;
  readonly #burstMs: number;
  /** When the bucket of each caller will be full again, by the monotonic clock. */
  readonly #fullAtMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });

  /** A bucket holds as much as its rate allows in `burstMs`. */
  constructor(perSecond: number, burstMs: number) {
    this.perSecond = perSecond;
    this.#burstMs = burstMs;
  }

  /** Returns the time (ms) until the bucket contains something again; 0 or less if it does now. */
  emptyForMs(caller: string): number {
    if (this.perSecond === 0) return 0;
    return (this.#fullAtMs.get(caller) ?? 0) - clock.monotonicMs() - this.#burstMs;
  }

  /** Takes an amount out of the bucket, even more than it holds. */
  take(caller: string, amount: number): void {
    if (this.perSecond === 0) return;
    const fromMs = Math.max(clock.monotonicMs(), this.#fullAtMs.get(caller) ?? 0);
    this.#fullAtMs.set(caller, fromMs + (1000 * amount) / this.perSecond);
  }
}
