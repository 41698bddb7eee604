import type { FailedAttempt } from './attempt.ts';
import type { Grant } from './grant.ts';

/**
 * A function that runs a job. It should end soon after `signal` is aborted, which happens when the process stops or the
 * worker has lost its lease. If it throws StorageUnavailable or StorageFull, the job runs again. Any other error
 * deletes the job, and makes a dead letter of its batch, if it has one.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

export type Settlement =
  /**
   * The handler has reported the outcome to Redis itself. `held` is false if the worker had lost the job, so that
   * nothing was stored.
   */
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
  /**
   * Health points that the subscriber loses. A whole number, because reports show `health_points` as a whole number.
   */
  damage: number;
  /**
   * Time after the failure in which no delivery to the subscriber begins. Afterwards its jobs are tried one at a time,
   * until one succeeds. With 0, deliveries go on as before.
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
   * Set if the callback answered 410, which pauses the subscriber. The value is the `subscribedAt` of the subscriber
   * when the delivery began. If Redis has another value by now, the subscriber has subscribed again, and is not paused.
   */
  gone?: string;
  /** Called when Redis has stored that this failure has paused the subscriber. */
  onPaused?: () => void;
}

export const DEATH_REASONS = [
  'max_attempts',
  'max_age',
  'failed_in_bus',
  'killed_worker',
  'join_refused',
  'buried',
] as const;
export type DeathReason = (typeof DEATH_REASONS)[number];

export interface Burial extends Penalty {
  attempt: FailedAttempt;
  reason: DeathReason;
  /**
   * Called when Redis has stored that the batch has ended undelivered: it is a dead letter or, if its subscriber has
   * left (`isDropped`), deleted.
   */
  onEnd?: (isDropped: boolean) => void;
}

export interface Finished extends Success {
  grant: Grant;
}

export interface Acknowledged {
  /** False if the worker had lost the job before. In that case nothing was changed. */
  held: boolean;
  /** Number of events in the deleted batch, 0 if none was deleted. */
  removed: number;
  /**
   * True if `held` is false, and neither the batch nor a dead letter of it exists. Perhaps an earlier ack, whose reply
   * was lost, has deleted the batch.
   */
  isGone: boolean;
}

export const DONE: Settlement = { end: 'done', success: { heal: 0, tookMs: 0 } };

/** The settlement of a job that goes back into its queue, for any worker. The current attempt is not counted. */
export const GIVEN_BACK = triedAgainIn(0);

/** Returns a settlement that runs the job again after this many ms. The current attempt is not counted. */
export function triedAgainIn(delayMs: number): Settlement {
  return { end: 'retry', retry: { delayMs, damage: 0, throttleMs: 0, isUncounted: true } };
}
