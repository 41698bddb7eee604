/** The parts of the model. */

import type { Share } from '../../src/store/job.ts';
import type { Pauser } from '../../src/store/pause.ts';

export interface Subscriber {
  topics: Set<string>;
  max: number;
  ordered: boolean;
  inFlight: number | undefined;
  /** True if the subscriber has accepted a batch. */
  proven: boolean;
  /** True if the subscriber was slow to accept the last batch. */
  slow: boolean;
  pausedBy: Pauser | undefined;
  throttledUntilMs: number | undefined;
  /** The number of its events dropped since it subscribed; `told` is how many of them drop notices have told it of. */
  dropped: number;
  told: number;
}

export type Settings = Pick<Subscriber, 'max' | 'ordered' | 'inFlight'> & { topics: string[] };

/** A batch, or a dead letter. */
export interface Batch {
  /** The name that the bus has given the batch. Undefined until Redis was read. */
  name: string | undefined;
  token: string;
  events: string[];
  attempts: number;
  /** The attempts in its history: true for one at which a worker died. */
  history: boolean[];
  /** The reason why a batch is a dead letter. */
  reason?: string;
  /** True if the batch takes further events. */
  open: boolean;
  /** True if the batch was a dead letter, or holds a test event: its events may come after younger ones. */
  revived: boolean;
  /**
   * True if the batch was queued before its subscriber became ordered. Parts that are cut off such batches may change
   * places.
   */
  early?: boolean;
}

/** The work that a worker holds: a batch, or an aux job. */
export interface Hold {
  lease: number;
  /** The time when the lease was given. */
  sinceMs: number;
  work: Batch | string;
  share: Share | undefined;
  /** The lane was ordered when the batch was given out. */
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

/** An event that waits until it is due, by the model's time. */
export interface DelayedEvent {
  topic: string;
  event: string;
  dueMs: number;
}

/** A retry or purge of all dead letters that match. */
export interface Bulk {
  id: string;
  act: 'retry' | 'purge';
  queues: string[] | undefined;
  reason: string | undefined;
  /** Letters that died later do not match, by the clock of Redis. */
  untilMs: number;
  state: 'counting' | 'counted' | 'running' | 'cancelled' | 'ended';
  /** The place in `queues` of the subscriber whose letters come next. */
  queue: number;
  /** Time of death and UID of the letter that was looked at last in this queue. */
  after: [diedMs: number, bid: string] | undefined;
  matched: number;
  done: number;
  left: number;
}

/** The end of an event that is neither in a batch nor in a dead letter. */
export type Ending = 'received' | 'dropped' | 'purged' | 'left';

export interface Failure {
  throttleMs: number;
  noted: boolean;
  pause: boolean;
  /** True if no delivery was attempted. */
  givenBack?: boolean;
}
