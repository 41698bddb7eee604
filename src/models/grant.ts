import { type Batch, readBatch } from './batch.ts';
import { type Gap, readGap } from './gap.ts';
import { type Job, unpackJob } from './job.ts';
import { fieldsOf, readSubscriber, type Subscriber } from './subscriber.ts';

/** A job in a worker's hands, until it is acknowledged or taken back. */
export interface Grant {
  worker: string;
  /** The job as stored: what ack and nack name. */
  packed: Buffer;
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
  gap?: Gap;
}

type GrantReply = [worker: Buffer, job: Buffer, lease: number, batch?: Buffer[], gap?: Buffer[]];

/** As the script `acquire` answers. */
export type AcquireReply = [
  left: number,
  now: number,
  grants: GrantReply[],
  subscribers: (Buffer | (Buffer | null)[])[],
  acks: number[],
];

export function readGrants([, now, grants, described]: AcquireReply): Grant[] {
  const subscribers = readSubscribers(described);
  return grants.map((grant) => readGrant(grant, subscribers, now));
}

/** By token. */
function readSubscribers(described: (Buffer | (Buffer | null)[])[]): Map<string, Subscriber> {
  const subscribers = new Map<string, Subscriber>();
  for (let at = 0; at < described.length; at += 2) {
    subscribers.set(String(described[at]), readSubscriber(described[at + 1] as (Buffer | null)[]));
  }
  return subscribers;
}

function readGrant(
  [worker, packed, lease, list, drops]: GrantReply,
  subscribers: ReadonlyMap<string, Subscriber>,
  now: number,
): Grant {
  const job = unpackJob(packed);
  const grant: Grant = { worker: String(worker), packed, lease, job, atMs: now };
  if (list) grant.batch = readBatch(String(job?.args[0]), list);
  const subscriber = grant.batch && subscribers.get(grant.batch.token);
  if (subscriber) grant.subscriber = subscriber;
  const gap = drops && readGap(fieldsOf(drops));
  if (gap) grant.gap = gap;
  return grant;
}
