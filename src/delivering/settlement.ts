import type { FailedAttempt } from './attempt.ts';
import type { Grant } from './grant.ts';

/**
 * Runs a job. The process aborts `signal` when it stops, or when the worker has lost its lease; the job
 * should then end soon. If the handler throws, the job can never succeed, and its batch becomes a dead
 * letter, unless Redis failed.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

export type Settlement =
  /** The handler has told Redis the outcome. `held` is false if the worker did not hold the job any more. */
  | { end: 'settled'; held: boolean }
  /** Delete the job and its batch. */
  | { end: 'done'; success: Success }
  /** Run the job again. */
  | { end: 'retry'; retry: Retry }
  /** Make a dead letter of the job's batch. */
  | { end: 'dead'; burial: Burial };

export interface Success {
  /** The health points that the subscriber gains. */
  heal: number;
  tookMs: number;
  /** What the delivery log keeps of the batch; undefined if the log is off. */
  record?: string | undefined;
}

/** The consequences of a failed delivery for its subscriber. */
export interface Penalty {
  /** Health points that the subscriber loses. A whole number, because reports show `health_points` as one. */
  damage: number;
  /**
   * Time in which no delivery to the subscriber starts. If it is above 0, the subscriber is on trial
   * afterwards.
   */
  throttleMs: number;
}

export interface Retry extends Penalty {
  /** True if the attempt does not count, because neither batch nor subscriber is to blame. */
  isUncounted?: boolean;
  /** Delay before the job runs again; 0 makes it instant. */
  delayMs: number;
  /** Absent if no request was sent. */
  attempt?: FailedAttempt;
  /**
   * Set if the callback answered 410, which pauses the subscriber. The value is the `subscribedAt` that it
   * had then.
   */
  gone?: string;
  /** Called if the subscriber was not paused before, and is now. */
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
}

/** A job that is done and must be acknowledged. */
export interface Finished extends Success {
  grant: Grant;
}

export interface Acknowledged {
  /** False if the worker does not hold the job. In that case nothing has changed. */
  held: boolean;
  /** Number of events that the deleted batch held. */
  removed: number;
}

export const DONE: Settlement = { end: 'done', success: { heal: 0, tookMs: 0 } };

/** Gives the job back to the queue without an attempt, for any worker. */
export const GIVEN_BACK = triedAgainIn(0);

/** Returns a settlement that runs the job again after so many ms. The attempt does not count. */
export function triedAgainIn(delayMs: number): Settlement {
  return { end: 'retry', retry: { delayMs, damage: 0, throttleMs: 0, isUncounted: true } };
}
