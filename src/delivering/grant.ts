import type { Job } from '../store/job.ts';
import type { Packed } from '../store/packed.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import type { Batch } from './batch.ts';

/** A job that a worker has acquired and holds under a lease. */
export interface Grant {
  worker: string;
  /**
   * The bytes of the job as Redis stores them. A script finds the job by these bytes, in ack and nack for example.
   */
  packed: Packed;
  /** The number of the lease. It proves that this worker, and no later one, holds the job. */
  lease: number;
  /** The decoded job. Undefined if the bytes are not a job. */
  job: Job | undefined;
  /** When the worker acquired the job, in ms by Redis's clock. */
  atMs: number;
  /** The batch that the job delivers. Absent if the job delivers none. */
  batch?: Batch;
  /** The subscriber of the batch. Absent if the subscriber has left. */
  subscriber?: Subscriber;
  /**
   * A message that tells the subscriber how many events the bus has dropped. Absent if no events were dropped, or
   * if an accepted delivery has already carried the message.
   */
  dropNotice?: DropNotice;
}

/** The settings and the state of a subscriber that a delivery needs. */
export interface Subscriber {
  callback: string;
  /**
   * The `uuid` that the subscriber gave when it subscribed. Deliveries carry it as the user name of their credentials.
   * It may be empty.
   */
  uuid: string;
  /** The secrets that sign the deliveries to this subscriber, as the text that Redis stores. */
  signing?: string;
  /**
   * When the subscriber last subscribed, in µs by Redis's clock; '0' if unknown. An answer 410 (Gone) pauses the
   * subscriber only if it has not subscribed again since this time.
   */
  subscribedAt: string;
  /**
   * The subscriber's health, a score from 0 to 100. The lower it is, the longer the bus waits before it tries again.
   */
  healthPoints: number;
  /**
   * Limits that the subscriber has set on a batch's attempts and age. A failed batch that has reached one of them
   * becomes a dead letter.
   */
  maxAttempts?: number;
  maxAgeMs?: number;
}
