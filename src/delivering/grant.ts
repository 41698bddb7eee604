import type { Job } from '../store/job.ts';
import type { Packed } from '../store/packed.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import type { Batch } from './batch.ts';

/** A job that a worker has acquired and holds under a lease. */
export interface Grant {
  worker: string;
  /** The job's bytes as Redis stores them. Ack and nack identify the job by its bytes. */
  packed: Packed;
  /** The fencing number of the lease. */
  lease: number;
  /** Undefined if the bytes are not a job. */
  job: Job | undefined;
  /** When the worker acquired the job, ms by Redis's clock. */
  atMs: number;
  /** Present only for jobs that deliver. */
  batch?: Batch;
  /** Absent if the subscriber has left. */
  subscriber?: Subscriber;
  /** Present if events were dropped that no accepted delivery has reported yet. */
  dropNotice?: DropNotice;
}

/** The settings and the state of a subscriber that a delivery needs. */
export interface Subscriber {
  callback: string;
  /** The user name of deliveries; may be empty. */
  uuid: string;
  /** The keys that sign its deliveries, as the text that Redis holds. */
  signing?: string;
  /**
   * When the subscriber last subscribed, µs by Redis's clock; '0' if unknown. A 410 pauses only this
   * subscription.
   */
  subscribedAt: string;
  /** 0 to 100. */
  healthPoints: number;
  /** Limits that this subscriber has set. Beyond one of them a batch becomes a dead letter. */
  maxAttempts?: number;
  maxAgeMs?: number;
}
