import { type Job, unpackJob } from '../store/job.ts';
import type { Packed } from '../store/packed.ts';
import { type DropNotice, readDropNotice } from '../subscribing/drop_notice.ts';
import { type Batch, readBatch } from './batch.ts';
import type { ReplyReader } from './reply_reader.ts';
import type { Subscriber } from './subscriber.ts';

/** A job in a worker's hands, until it is acknowledged or taken back. */
export interface Grant {
  worker: string;
  /** The job as stored: what ack and nack name. */
  packed: Packed;
  /** The number of the lease under which the worker holds the job. */
  lease: number;
  /** Undefined if the bytes are no job. */
  job: Job | undefined;
  /** When the grant was given, ms by Redis's clock. */
  atMs: number;
  /** For a job that delivers: its batch, and the subscriber if there still is one. */
  batch?: Batch;
  subscriber?: Subscriber;
  /** What was dropped of the subscriber's queue, of which it is to be told. */
  gap?: DropNotice;
}

/** Reads a grant of those that `acquire` answers. `subscribers`: by token, those of its batches; `nextPieces`: so many pieces of the events of batches. */
export function readGrant(
  reader: ReplyReader,
  subscribers: ReadonlyMap<string, Subscriber>,
  nextPieces: (count: number) => Packed[],
  atMs: number,
): Grant {
  const values = reader.arrayLength();
  const worker = reader.string();
  const packed = reader.packed();
  const job = unpackJob(packed);
  const grant: Grant = { worker, packed, lease: reader.integer(), job, atMs };
  if (values > 3) grant.batch = readBatch(String(job?.args[0]), reader, nextPieces);
  const subscriber = grant.batch && subscribers.get(grant.batch.token);
  if (subscriber) grant.subscriber = subscriber;
  const gap = values > 4 && readDropNotice(readFields(reader));
  if (gap) grant.gap = gap;
  return grant;
}

/** A hash as a script hands it out: field, value, … */
function readFields(reader: ReplyReader): Record<string, string> {
  return Object.fromEntries(reader.list(2, () => [reader.string(), reader.string()]));
}
