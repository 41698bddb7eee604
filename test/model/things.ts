/** What the model is made of. */

import type { Share } from '../../src/store/job.ts';
import type { Pauser } from '../../src/store/pause.ts';

export interface Subscriber {
  topics: Set<string>;
  max: number;
  ordered: boolean;
  inFlight: number | undefined;
  /** It has taken a batch. */
  proven: boolean;
  /** It took long over the last batch that it took. */
  slow: boolean;
  pausedBy: Pauser | undefined;
  throttledUntilMs: number | undefined;
  /** How many of its events were dropped since it subscribed, and of how many of these a batch that it took told. */
  dropped: number;
  told: number;
}

export type Settings = Pick<Subscriber, 'max' | 'ordered' | 'inFlight'> & { topics: string[] };

/** A batch, or a dead letter. */
export interface Batch {
  /** Undefined until the bus is asked how it is called. */
  name: string | undefined;
  token: string;
  events: string[];
  attempts: number;
  /** The attempts that are told of: true where a worker died. */
  history: boolean[];
  /** Why it is a dead letter. */
  reason?: string;
  /** It takes events. */
  open: boolean;
  /** It was a dead letter, or is a test: its events come after younger ones. */
  revived: boolean;
}

/** What a worker has in its hands: a batch, or an aux job. */
export interface Hold {
  lease: number;
  /** When the lease was given. */
  sinceMs: number;
  work: Batch | string;
  share: Share | undefined;
  /** The lane was ordered when it was given out. */
  inOrder: boolean;
  /** How many dropped events the delivery tells of. */
  telling: number;
}

export interface Publication {
  topic: string;
  client: string;
  events: string[];
  key?: { digest: string; fingerprint: string };
}

/** An event that waits for its time, which is of the model. */
export interface DelayedEvent {
  topic: string;
  event: string;
  dueMs: number;
}

/** Where an event is that is neither in a batch nor in a dead letter. */
export type Ending = 'received' | 'dropped' | 'purged' | 'left';

export interface Failure {
  throttleMs: number;
  noted: boolean;
  pause: boolean;
  /** Nothing was tried. */
  givenBack?: boolean;
}
