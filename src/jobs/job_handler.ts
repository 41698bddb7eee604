import type { Grant, Retry } from '../models/queue.ts';

/** What a job asks for when it has run. */
export type Settlement =
  /** Forget it, and delete its batch; `heal`: the health points that the subscriber gains. */
  { done: true; heal: number } | { done: false; retry: Retry };

/**
 * Runs a job. An aborted `signal` asks it to end soon: the process stops.
 * A handler that throws has failed; the job is run again after a pause.
 */
export type JobHandler = (grant: Grant, signal: AbortSignal) => Promise<Settlement>;

export const DONE: Settlement = { done: true, heal: 0 };

/** Give the job back untried, for another worker. */
export const GIVEN_BACK: Settlement = { done: false, retry: { delayMs: 0, damage: 0, throttleMs: 0 } };
