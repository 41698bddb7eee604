import { Decoder } from '@msgpack/msgpack';
import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { unpackJob } from '../store/job.ts';
import { Packed } from '../store/packed.ts';
import { fieldsOf, readDropNotice } from '../subscribing/drop_notice.ts';
import type { Grant, Subscriber } from './grant.ts';
import type { Acknowledged } from './settlement.ts';

export interface Acquired {
  grants: Grant[];
  /** Number of jobs in the queue that could still be acquired after the script call. */
  left: number;
  /**
   * One result for each finished job that the script call has acknowledged, in the order of its argument `finished`.
   */
  acks: Acknowledged[];
}

/**
 * The first item of the script's reply, decoded from MessagePack. `left` is the number of jobs that are still ready.
 * `atMs` is the time by Redis's clock. `acks` is a flat list with two numbers for each finished job: 1 if the worker
 * still held the job, else 0, and how many events were removed. `subscribers` is a flat list with a token and its
 * fields for each subscriber.
 */
type Head = [
  left: number,
  atMs: number,
  acks: number[],
  subscribers: (string | SubscriberFields)[],
  grants: GrantHead[],
];

/** Fields of a subscriber's hash. False stands for a field that the hash does not have. */
type SubscriberFields = [
  callback: string | false,
  uuid: string | false,
  subscribedAt: string | false,
  healthPoints: string | false,
  maxAttempts: string | false,
  maxAge: string | false,
  signing: string | false,
];

/** What the script's reply says about a job that a worker has acquired. A job that delivers no batch has no `batch`. */
type GrantHead = [worker: string, lease: number, batch?: BatchHead, dropNotice?: string[]];

type BatchHead = [token: string, created: string, attempts: string, count: number, pieces: number];

const decoder = new Decoder();

/**
 * Reads the reply of the script `acquire`. The first buffer is the head. Then each acquired job has a buffer with the
 * packed job, and one for each piece (one or several events) of its batch, as explained at `Batch.pieces`.
 */
export function readAcquired([head = Buffer.of(), ...rest]: Buffer[]): Acquired {
  const [left, atMs, flatAcks, flatSubscribers, grantHeads] = decoder.decode(head) as Head;
  const acks: Acknowledged[] = [];
  for (let i = 0; i < flatAcks.length; i += 2)
    acks.push({ held: flatAcks[i] === 1, removed: flatAcks[i + 1] as number });
  const subscribers = new Map<string, Subscriber>();
  for (let i = 0; i < flatSubscribers.length; i += 2)
    subscribers.set(flatSubscribers[i] as string, readSubscriber(flatSubscribers[i + 1] as SubscriberFields));
  const buffers = rest.values();
  return { left, acks, grants: grantHeads.map((each) => readGrant(each, buffers, subscribers, atMs)) };
}

function readSubscriber(fields: SubscriberFields): Subscriber {
  const [callback, uuid, subscribedAt, healthPoints, maxAttempts, maxAge, signing] = fields;
  return {
    callback: callback || '',
    uuid: uuid || '',
    subscribedAt: subscribedAt || '0',
    healthPoints: Number(healthPoints || PERFECT_HEALTH),
    ...(maxAttempts && { maxAttempts: Number(maxAttempts) }),
    ...(maxAge && { maxAgeMs: Number(maxAge) }),
    ...(signing && { signing }),
  };
}

/**
 * Reads an acquired job. The next items of `buffers` are the packed job and then the pieces (one or several events
 * each) of its batch.
 */
function readGrant(
  [worker, lease, batchHead, dropNoticeFields]: GrantHead,
  buffers: Iterator<Buffer>,
  subscribers: ReadonlyMap<string, Subscriber>,
  atMs: number,
): Grant {
  const packed = Packed.of(buffers.next().value);
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
    // Each piece (one or several events) is copied. A view would keep the whole reply in memory while the delivery
    // hangs.
    pieces: Array.from({ length: pieces }, () => Buffer.from(buffers.next().value)),
  };
  const subscriber = subscribers.get(token);
  if (subscriber) grant.subscriber = subscriber;
  const dropNotice = dropNoticeFields && readDropNotice(fieldsOf(dropNoticeFields));
  if (dropNotice) grant.dropNotice = dropNotice;
  return grant;
}
