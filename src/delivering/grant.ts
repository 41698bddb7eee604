import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { DELIVERY_FIELDS } from '../store/contracts/delivering.ts';
import type { Job } from '../store/job.ts';
import { namedFields } from '../store/replies.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import type { Batch } from './batch.ts';

/** A job that a worker has acquired and holds under a lease. */
export interface Grant {
  worker: string;
  /** The bytes of the job as Redis stores them, by which scripts such as nack and bury find it. */
  packed: Buffer;
  /** The number of the lease. It proves that this worker, and no later one, holds the job. */
  lease: number;
  /** The decoded job. Undefined if the bytes are not a job. */
  job: Job | undefined;
  /** When the worker acquired the job, in ms by Redis's clock. */
  atMs: number;
  /** Absent if the job delivers no batch. */
  batch?: Batch;
  /** The subscriber of the batch. Absent if the subscriber has left. */
  subscriber?: Subscriber;
  /**
   * The drop notice: what the bus dropped of the subscriber's batches and dead letters because memory was short. Absent
   * if nothing was dropped, or if another batch carries or carried the notice.
   */
  dropNotice?: DropNotice;
}

/** The settings and the state of a subscriber, as far as deliveries to it need them. */
export interface Subscriber {
  callback: string;
  /** The `uuid` that the subscriber gave, perhaps empty: the user name in the credentials of its deliveries. */
  uuid: string;
  /** The secrets that sign the deliveries to the subscriber, as the text that Redis stores. */
  signing?: string;
  /**
   * When the subscriber last subscribed, in µs by Redis's clock; '0' if unknown. A 410 pauses the subscriber only if it
   * has not subscribed again since this time.
   */
  subscribedAt: string;
  /** Health points, from 0 to 100. The lower they are, the longer the bus waits before it tries again. */
  healthPoints: number;
  /** Limits that the subscriber has set. A failed batch that has reached one of them becomes a dead letter. */
  maxAttempts?: number;
  maxAgeMs?: number;
}

/**
 * A subscriber's values of the fields in DELIVERY_FIELDS, in that order. False stands for a field that the subscriber's
 * hash lacks.
 */
export type SubscriberValues = (string | false)[];

export function readSubscriber(values: SubscriberValues): Subscriber {
  const hash = namedFields(DELIVERY_FIELDS, values);
  return {
    callback: hash.callback || '',
    uuid: hash.uuid || '',
    subscribedAt: hash.subscribed_at || '0',
    healthPoints: Number(hash.health_points || PERFECT_HEALTH),
    ...(hash.max_attempts && { maxAttempts: Number(hash.max_attempts) }),
    ...(hash.max_age && { maxAgeMs: Number(hash.max_age) }),
    ...(hash.signing && { signing: hash.signing }),
  };
}
