import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import type { Config } from '../config.ts';
import type { Penalty } from './settlement.ts';

const FIRST_BACKOFF_MS = 1000;
const MAX_RETRY_AFTER_MS = 24 * 3600 * 1000;

export type RetrySettings = Pick<Config, 'maxBackoffMs' | 'damageRate'>;

interface RetryInput {
  /** The subscriber's health points before this failure. */
  healthPoints: number;
  /** Attempts at this batch so far, including the failed one. */
  attempts: number;
  retryAfterMs?: number | undefined;
}

/**
 * Decides how many health points (`damage`) a subscriber loses by a failed delivery, and when the next attempt is made.
 * There are three delays: one by the attempts at the batch, one by the lost health points, and the `Retry-After` of the
 * answer. The batch waits for the longest of the three. The subscriber's other batches wait for the longer of the last
 * two (`throttleMs`).
 */
export function retryAfterFailure(
  { healthPoints, attempts, retryAfterMs = 0 }: RetryInput,
  { maxBackoffMs, damageRate: damage }: RetrySettings,
  random = Math.random(),
): Penalty & { delayMs: number } {
  const healthMs = healthBackoffMs(healthPoints - damage, maxBackoffMs);
  const throttleMs = Math.max(healthMs, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
  const attemptMs = attemptBackoffMs(attempts, maxBackoffMs, random);
  return { delayMs: Math.max(1, throttleMs, attemptMs), damage, throttleMs };
}

/**
 * Returns a delay that grows with the square of the missing health points. If `maxMs` is 60 s, it is 24 ms at 98 points
 * and 15 s at 50 points.
 */
function healthBackoffMs(points: number, maxMs: number): number {
  const missing = (PERFECT_HEALTH - Math.max(0, points)) / PERFECT_HEALTH;
  return maxMs * missing ** 2;
}

/**
 * Returns a delay that doubles with each attempt, from a second up to the limit. It is shortened by up to half, at
 * random.
 */
function attemptBackoffMs(attempts: number, maxMs: number, random: number): number {
  const fullMs = Math.min(FIRST_BACKOFF_MS * 2 ** Math.min(attempts - 1, 30), maxMs);
  return fullMs * (1 - random / 2);
}
