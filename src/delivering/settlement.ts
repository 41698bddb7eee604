import type { FailedAttempt } from './attempt.ts';
import type { Grant } from './grant.ts';

/**
 * Runs a job. An aborted `signal` asks it to end soon: the process stops, or the worker has lost its lease.
 * An error means that the job can never succeed: its batch becomes a dead letter.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

/** What is to become of a job that has run. */
export type Settlement =
  /** Delete the job and its batch. */
  | { end: 'done'; success: Success }
  /** Run the job again. */
  | { end: 'retry'; retry: Retry }
  /** Make a dead letter of the job's batch. */
  | { end: 'dead'; burial: Burial };

export interface Success {
  /** The health points that the subscriber gains. */
  heal: number;
  /** How long the delivery took. */
  tookMs: number;
}

/** What a failed delivery costs its subscriber. */
export interface Penalty {
  /** Health points; 0 for a job that is only given back. */
  damage: number;
  /** No delivery to the subscriber starts for this long. */
  throttleMs: number;
}

export interface Retry extends Penalty {
  /** How long to wait before the job runs again; 0 means not at all. */
  delayMs: number;
  /** Absent if nothing was sent. */
  attempt?: FailedAttempt;
  /** The subscription (`subscribedAt`) whose callback answered 410: no delivery starts until the subscriber subscribes again. */
  gone?: string;
}

/** Why a batch became a dead letter. */
export type DeathReason = 'max_attempts' | 'max_age' | 'failed_in_bus';

export interface Burial extends Penalty {
  attempt: FailedAttempt;
  reason: DeathReason;
}

/** A job that is done, and is to be acknowledged. */
export interface Finished extends Success {
  grant: Grant;
}

export interface Acknowledged {
  /** False if the worker does not hold the job; nothing has changed then. */
  held: boolean;
  /** How many events the batch held. */
  removed: number;
}

export const DONE: Settlement = { end: 'done', success: { heal: 0, tookMs: 0 } };

/** Gives the job back untried, for another worker. */
export const GIVEN_BACK: Settlement = { end: 'retry', retry: { delayMs: 0, damage: 0, throttleMs: 0 } };
