import { type Job, unpackJob } from '../store/job.ts';
import { Packed } from '../store/packed.ts';
import { type DropNotice, fieldsOf, readDropNotice } from '../subscribing/drop_notice.ts';
import { type Batch, type BatchHead, readBatch } from './batch.ts';
import type { Subscriber } from './subscriber.ts';

/** A job in a worker's hands, until it is acknowledged or taken back. */
export interface Grant {
  worker: string;
  /** The job as stored; ack and nack name it so. */
  packed: Packed;
  /** The number of the lease under which the worker holds the job. */
  lease: number;
  /** Undefined if the bytes are no job. */
  job: Job | undefined;
  /** When the job was handed out, ms by Redis's clock. */
  atMs: number;
  /** Only jobs that deliver have a batch. The subscriber may have left. */
  batch?: Batch;
  subscriber?: Subscriber;
  /** What was dropped of the subscriber's queue, of which it is to be told. */
  gap?: DropNotice;
}

/** A grant as `acquire` tells of it. Only jobs that deliver have a batch; `gap` is a hash: field, value, … */
export type GrantHead = [worker: string, lease: number, batch?: BatchHead, gap?: string[]];

/** Reads a grant; `buffers` of the reply go on with its packed job and the pieces of its batch. */
export function readGrant(
  [worker, lease, batchHead, gapFields]: GrantHead,
  buffers: Iterator<Buffer>,
  subscribers: ReadonlyMap<string, Subscriber>,
  atMs: number,
): Grant {
  const packed = Packed.of(buffers.next().value);
  const job = unpackJob(packed);
  const grant: Grant = { worker, packed, lease, job, atMs };
  if (!batchHead) return grant;
  grant.batch = readBatch(String(job?.args[0]), batchHead, buffers);
  const subscriber = subscribers.get(grant.batch.token);
  if (subscriber) grant.subscriber = subscriber;
  const gap = gapFields && readDropNotice(fieldsOf(gapFields));
  if (gap) grant.gap = gap;
  return grant;
}
