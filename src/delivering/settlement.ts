import type { Attempt } from './attempt.ts';
import type { Grant } from './grant.ts';

/** What a failed delivery costs its subscriber. */
export interface Penalty {
  /** Health points; 0 for a job that was only given back. */
  damage: number;
  /** How long no delivery to the subscriber is tried. */
  throttleMs: number;
}

export interface Retry extends Penalty {
  /** When to run the job again; 0: at once. */
  delayMs: number;
  /** What came of the attempt, if there was one. */
  attempt?: Attempt;
  /** The subscription (`subscribedAt`) whose callback is gone: nothing is tried until the subscriber subscribes again. */
  gone?: string;
}

/** Why a batch became a dead letter. */
export type DeathReason = 'max_attempts' | 'max_age' | 'failed_in_bus';

export interface Burial extends Penalty {
  attempt: Attempt;
  reason: DeathReason;
}

export interface Success {
  /** The health points that the subscriber gains. */
  heal: number;
  /** How long it took to take the batch. */
  tookMs: number;
}

/** A job that was done. */
export interface Finished extends Success {
  grant: Grant;
}

export interface Acknowledged {
  /** False, and nothing has changed, if the worker does not hold the job. */
  held: boolean;
  /** How many events the batch held. */
  removed: number;
}
