import type { Grant } from './grant.ts';
import type { Burial, Retry, Success } from './settlement.ts';

/** What a job asks for when it has run. */
export type Settlement =
  /** Forget it, and delete its batch. */
  | { end: 'done'; success: Success }
  /** Run it again. */
  | { end: 'retry'; retry: Retry }
  /** Make a dead letter of its batch. */
  | { end: 'dead'; burial: Burial };

/**
 * Runs a job. An aborted `signal` asks it to end soon: the process stops, or the worker has lost its lease.
 * A handler that throws has failed for good: its batch becomes a dead letter.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

export const DONE: Settlement = { end: 'done', success: { heal: 0, tookMs: 0 } };

/** Give the job back untried, for another worker. */
export const GIVEN_BACK: Settlement = { end: 'retry', retry: { delayMs: 0, damage: 0, throttleMs: 0 } };
