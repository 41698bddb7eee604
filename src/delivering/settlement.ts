import type { FailedAttempt } from './attempt.ts';
import type { Grant } from './grant.ts';

/**
 * A function that runs a job. `signal` is aborted when the process stops or the worker has lost its lease; the job
 * should then end soon. If the function throws StorageUnavailable or StorageFull, the job runs again. After any other
 * error, the job is deleted, and its batch, if it has one, becomes a dead letter.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

export type Settlement =
  /** The handler itself has stored the outcome in Redis. `held` is false if the worker had lost the job before. */
  | { end: 'settled'; held: boolean }
  /** The job has succeeded: it is deleted with its batch. */
  | { end: 'done'; success: Success }
  /** The job runs again. */
  | { end: 'retry'; retry: Retry }
  /** The batch of the job becomes a dead letter. */
  | { end: 'dead'; burial: Burial };

export interface Success {
  /** The health points that the subscriber gains. */
  heal: number;
  tookMs: number;
  /** The record of the batch for the delivery log. Undefined if the log is off. */
  record?: string | undefined;
}

export interface Penalty {
  /** Health points that the subscriber loses: a whole number, because reports show `health_points` as one. */
  damage: number;
  /**
   * Time in which no delivery to the subscriber begins. If this time is above 0, the subscriber's jobs are tried one at
   * a time afterwards, until one succeeds.
   */
  throttleMs: number;
}

export interface Retry extends Penalty {
  /** True if the attempt is not counted, because neither the batch nor the subscriber has caused the failure. */
  isUncounted?: boolean;
  delayMs: number;
  /** The failed attempt. Absent if no request was sent. */
  attempt?: FailedAttempt;
  /**
   * Set after a 410, which pauses the subscriber. The value is the subscriber's `subscribedAt` when the delivery began.
   * A subscriber that has subscribed again since then is not paused.
   */
  gone?: string;
  onPaused?: () => void;
}

export const DEATH_REASONS = [
  'max_attempts',
  'max_age',
  'failed_in_bus',
  'killed_worker',
  'join_refused',
] as const;
export type DeathReason = (typeof DEATH_REASONS)[number];

export interface Burial extends Penalty {
  attempt: FailedAttempt;
  reason: DeathReason;
  /**
   * Called when Redis has stored the outcome: the batch is a dead letter, or deleted because its subscriber has left
   * (`isDropped`).
   */
  onEnd?: (isDropped: boolean) => void;
}

export interface Finished extends Success {
  grant: Grant;
}

export interface Acknowledged {
  /** False if the worker had lost the job before. In that case nothing was changed. */
  held: boolean;
  /** Number of events in the deleted batch. */
  removed: number;
  /**
   * True if `held` is false and the batch no longer exists: perhaps an earlier ack, whose reply was lost, deleted it.
   */
  isGone: boolean;
}

export const DONE: Settlement = { end: 'done', success: { heal: 0, tookMs: 0 } };

/** Gives the job back to the queue, for any worker. The current attempt is not counted. */
export const GIVEN_BACK = triedAgainIn(0);

/** Returns a settlement that runs the job again after this many ms. The current attempt is not counted. */
export function triedAgainIn(delayMs: number): Settlement {
  return { end: 'retry', retry: { delayMs, damage: 0, throttleMs: 0, isUncounted: true } };
}
