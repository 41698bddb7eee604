import { decode } from '@msgpack/msgpack';
import { unpackJob } from '../store/job.ts';
import { pairsOf } from '../store/replies.ts';
import { readDropNotice } from '../subscribing/drop_notice.ts';
import { type Grant, readSubscriber, type Subscriber, type SubscriberValues } from './grant.ts';
import type { Acknowledged } from './settlement.ts';

export interface Acquired {
  grants: Grant[];
  /** Number of ready jobs that are left in the queue. */
  readyJobs: number;
  /** A result for each finished job, in the order of the script's argument `finished`. */
  acks: Acknowledged[];
}

/**
 * The first item of the script's reply, decoded (see lua/delivering/acquire.lua). `acks` has three numbers for each
 * finished job. `subscribers` has, for each subscriber, the token and a list of values without field names: the names
 * would cost 5 µs for each job in Redis, and as much in Node.
 */
type Head = [
  readyJobs: number,
  atMs: number,
  acks: number[],
  subscribers: (string | SubscriberValues)[],
  grants: GrantHead[],
];

type GrantHead = [worker: string, lease: number, batch?: BatchHead, dropNotice?: string[]];

type BatchHead = [token: string, created: string, attempts: string, count: number, pieces: number];

/**
 * Reads the reply of the script `acquire`. Its first item is the Head. Then come, for each acquired job, the job as
 * Redis stores it, and the buffers that hold the events of its batch (`Batch.pieces`).
 */
export function readAcquired([head = Buffer.of(), ...rest]: Buffer[]): Acquired {
  const [readyJobs, atMs, flatAcks, flatSubscribers, grantHeads] = decode(head) as Head;
  const acks: Acknowledged[] = [];
  for (let i = 0; i < flatAcks.length; i += 3)
    acks.push({
      held: flatAcks[i] === 1,
      removed: flatAcks[i + 1] as number,
      isGone: flatAcks[i + 2] === 1,
    });
  const subscribers = new Map<string, Subscriber>();
  for (let i = 0; i < flatSubscribers.length; i += 2)
    subscribers.set(flatSubscribers[i] as string, readSubscriber(flatSubscribers[i + 1] as SubscriberValues));
  const buffers = rest.values();
  return { readyJobs, acks, grants: grantHeads.map((each) => readGrant(each, buffers, subscribers, atMs)) };
}

/**
 * Reads an acquired job from `buffers`: the next buffer holds the job as Redis stores it, and those after it hold the
 * events of its batch.
 */
function readGrant(
  [worker, lease, batchHead, dropNoticeFields]: GrantHead,
  buffers: Iterator<Buffer>,
  subscribers: ReadonlyMap<string, Subscriber>,
  atMs: number,
): Grant {
  const packed: Buffer = buffers.next().value;
  const job = unpackJob(packed);
  const grant: Grant = { worker, packed, lease, job, atMs };
  if (!batchHead) return grant;
  const [token, created, attempts, count, pieces] = batchHead;
  grant.batch = {
    bid: String(job?.args[0]),
    token,
    createdAtMs: Number(created),
    attempts: Number(attempts),
    count,
    // These parts of the reply hold the events of the batch. They are not copied: each is a part of a chunk (up to 64
    // KiB) that was read from Redis. Copying took a sixth of a worker's CPU at 100 events a batch. Without copies, a
    // delivery that hangs keeps whole chunks in memory.
    pieces: Array.from({ length: pieces }, () => buffers.next().value),
  };
  const subscriber = subscribers.get(token);
  if (subscriber) grant.subscriber = subscriber;
  const dropNotice = dropNoticeFields && readDropNotice(Object.fromEntries(pairsOf(dropNoticeFields)));
  if (dropNotice) grant.dropNotice = dropNotice;
  return grant;
}
