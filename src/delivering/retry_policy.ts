import { PERFECT_HEALTH } from '../subscription_defaults.ts';
import type { Retry } from './settlement.ts';

const FIRST_RETRY_MS = 1000;
/** A subscriber that asks for more patience than this gets this much. */
const LONGEST_RETRY_AFTER_MS = 24 * 3600 * 1000;

export interface Failure {
  /** The subscriber's health before this failure. */
  healthPoints: number;
  /** Attempts at this batch so far, this one included. */
  attempts: number;
  /** What the subscriber asked for in `Retry-After`. */
  retryAfterMs?: number | undefined;
}

/**
 * Decides when a delivery is tried again: after the longest of the health back-off, an exponential back-off with
 * jitter, and what the subscriber asked for. Other batches for it wait for the health back-off or what it asked for.
 */
export class Throttle {
  readonly #maxBackoffMs: number;
  readonly #damage: number;
  readonly #random: () => number;

  /** `random` gives numbers from 0 up to 1. */
  constructor(settings: { maxBackoffMs: number; damageRate: number }, random: () => number = Math.random) {
    this.#maxBackoffMs = settings.maxBackoffMs;
    this.#damage = settings.damageRate;
    this.#random = random;
  }

  retry(failure: Failure): Retry {
    const health = this.#healthBackoffMs(Math.max(0, failure.healthPoints - this.#damage));
    const asked = Math.min(failure.retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS);
    const throttleMs = Math.max(health, asked);
    return {
      delayMs: Math.max(1, throttleMs, this.#attemptBackoffMs(failure.attempts)),
      damage: this.#damage,
      throttleMs,
    };
  }

  /** Grows with the square of what health is missing: 24 ms after one failure, a quarter of the limit at 50 points. */
  #healthBackoffMs(points: number): number {
    return this.#maxBackoffMs * ((PERFECT_HEALTH - points) / PERFECT_HEALTH) ** 2;
  }

  /** Doubles with each attempt from a second up to the limit; jitter takes up to half off, so that retries spread. */
  #attemptBackoffMs(attempts: number): number {
    const full = Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempts - 1, 30), this.#maxBackoffMs);
    return full * (1 - this.#random() / 2);
  }
}
