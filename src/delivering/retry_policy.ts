import { PERFECT_HEALTH } from '../subscription_defaults.ts';
import type { Penalty } from './settlement.ts';

const FIRST_BACKOFF_MS = 1000;
const MAX_RETRY_AFTER_MS = 24 * 3600 * 1000;

interface RetryInput {
  /** The subscriber's health before this failure. */
  healthPoints: number;
  /** Attempts at this batch so far, including the failed one. */
  attempts: number;
  /** From the answer's `Retry-After`, if it had one. */
  retryAfterMs?: number | undefined;
}

/**
 * Decides when a failed delivery is tried again, and what the failure costs the subscriber. The rule:
 *
 * - The batch waits for the longest of the attempt back-off, the health back-off and `Retry-After`.
 * - The subscriber's other batches wait for the longer of the health back-off and `Retry-After`.
 */
export class RetryPolicy {
  readonly #maxBackoffMs: number;
  readonly #damage: number;
  readonly #random: () => number;

  /** `random` returns numbers from 0 up to, but not including, 1. */
  constructor(settings: { maxBackoffMs: number; damageRate: number }, random: () => number = Math.random) {
    this.#maxBackoffMs = settings.maxBackoffMs;
    this.#damage = settings.damageRate;
    this.#random = random;
  }

  retry({ healthPoints, attempts, retryAfterMs = 0 }: RetryInput): Penalty & { delayMs: number } {
    const healthMs = healthBackoffMs(healthPoints - this.#damage, this.#maxBackoffMs);
    const throttleMs = Math.max(healthMs, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
    const attemptMs = attemptBackoffMs(attempts, this.#maxBackoffMs, this.#random());
    return { delayMs: Math.max(1, throttleMs, attemptMs), damage: this.#damage, throttleMs };
  }
}

/** Grows with the square of the missing health: with a limit of 60 s, 24 ms at 98 points and 15 s at 50. */
function healthBackoffMs(points: number, maxMs: number): number {
  const missing = (PERFECT_HEALTH - Math.max(0, points)) / PERFECT_HEALTH;
  return maxMs * missing ** 2;
}

/** Doubles with each attempt, from one second to the limit. Jitter subtracts up to half of it. */
function attemptBackoffMs(attempts: number, maxMs: number, random: number): number {
  const fullMs = Math.min(FIRST_BACKOFF_MS * 2 ** Math.min(attempts - 1, 30), maxMs);
  return fullMs * (1 - random / 2);
}
