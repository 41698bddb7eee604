import assert from 'node:assert/strict';
import { decode } from '@msgpack/msgpack';
import { readAcquired } from '../../src/delivering/acquired.ts';
import type { Batch } from '../../src/delivering/batch.ts';
import type { Grant, Subscriber } from '../../src/delivering/grant.ts';
import { SLOW_MS, type WorkerKind } from '../../src/delivering/queue.ts';
import type { Reply } from '../../src/store/contracts.ts';
import type { QueueName } from '../../src/store/job.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { DropNotice } from '../../src/subscribing/drop_notice.ts';
import { jobName, packNamed, seedOf, shortName } from './names.ts';

export interface Handed {
  worker: string;
  job: string;
  /** The batch as stored: subscriber, creation, attempts, events. */
  batch?: string[];
  subscriber?: Subscriber;
  /** The drop notice, if there is one. */
  gap?: DropNotice | null;
}

/** The lease under which a worker holds a job. */
interface Held {
  /** The number of the lease. The default is the number of the worker's latest lease. */
  lease?: number | undefined;
  leaseMs?: number;
}

/** A finished job. By default it delivered a batch, quickly. */
interface FinishedJob {
  worker: string;
  job: string;
  lease?: number | undefined;
  bid?: string;
  heal?: number;
  tookMs?: number;
  /** The batch's record in the delivery log; empty if nothing was delivered. */
  record?: string;
}

/** The settings of a queue. */
interface Settings {
  q?: QueueName;
  laneLimit?: number;
  leaseMs?: number;
  slowMs?: number;
  /** Maximum records in the delivery log. */
  deliveryLog?: number;
}

/** The consequences of a failure. */
interface Failing {
  damage?: number;
  throttleMs?: number;
  attempt?: string;
}

/** The lane limit, unless a test sets another. */
export const LANE_LIMIT = 10;
/**
 * Number of live workers besides those that acquire. A lane holds at most a quarter of all workers, so with 400 more a
 * lane reaches its limit (100 at most).
 */
const IDLE_WORKERS = 400;
export const LANE_LIMIT_MAX = 100;
const LEASE_MS = 30_000;
/** Maximum records of the delivery log: more than any test makes. */
export const DELIVERY_LOG = 100_000;
/** A worker's record of a batch accepted at the first attempt: created, events, attempts, topics, bytes, attempt. */
export const RECORD = '1600000000000,1,1,{"widgets":1},9,1600000000001,200,5';

/** Calls the scripts that workers call for their jobs. */
export class WorkerCalls {
  readonly #store: () => Partition;
  /** The leases under which workers hold jobs, as acquire gave them. */
  readonly leases = new Map<string, number>();

  constructor(store: () => Partition) {
    this.#store = store;
  }

  get store(): Partition {
    return this.#store();
  }

  async acquire(
    workers: string[],
    {
      q = 'main',
      laneLimit = LANE_LIMIT,
      leaseMs = LEASE_MS,
      slowMs = SLOW_MS,
      deliveryLog = DELIVERY_LOG,
      idle = IDLE_WORKERS,
      kind = 'regular',
      finished = [],
      seed = 'cut',
    }: Settings & {
      idle?: number;
      kind?: WorkerKind;
      finished?: FinishedJob[];
      /** Batches that this call makes by cutting others get the names `{seed}1`, `{seed}2` and so on. */
      seed?: string;
    } = {},
  ) {
    if (q === 'main' && idle > 0 && workers.length > 0) await this.addIdleWorkers(idle);
    const reply = await this.store.run('acquire', {
      ...{ q, leaseMs, laneLimit, laneLimitMax: LANE_LIMIT_MAX, slowMs, uidSeed: seedOf(seed) },
      deliveryLog,
      finished: finished.map((each) => this.#finished(each)),
      workers,
      kind,
    });
    const { readyJobs, grants, acks } = readAcquired(reply);
    for (const { worker, lease } of grants) this.leases.set(worker, lease);
    return {
      readyJobs,
      now: timeOf(reply),
      grants: await Promise.all(grants.map((grant) => this.#handed(grant))),
      acks: acks.flatMap(({ held, removed }) => [Number(held), removed]),
    };
  }

  /** Adds live workers that ask for no job. */
  async addIdleWorkers(count = IDLE_WORKERS): Promise<void> {
    const { redis, keys } = this.store;
    await redis.sadd(keys.workers_main(), ...Array.from({ length: count }, (_, i) => `idle${i}`));
  }

  /** Acknowledges a job, and acquires none. */
  async ack(worker: string, job: string, how: Omit<FinishedJob, 'worker' | 'job'> & Settings = {}) {
    const { acks } = await this.acquire([], { ...how, finished: [{ worker, job, ...how }] });
    const [held, removed] = acks as [number, number];
    return { held: held === 1, removed };
  }

  async nack(
    worker: string,
    job: string,
    {
      q = 'main' as QueueName,
      delayMs = 0,
      damage = 0,
      throttleMs = 0,
      attempt = '',
      pause = 0,
      ...lease
    }: Held & Failing & { q?: QueueName; delayMs?: number; pause?: 0 | 1 } = {},
  ) {
    const gone = pause ? await this.#subscriptionOf(job) : undefined;
    const isUncounted = attempt === '' && delayMs === 0;
    const failure = { bid: bidOf(job), delayMs, damage, throttleMs, attempt, gone, isUncounted };
    const { held } = await this.store.run('nack', { ...this.#held(q, worker, job, lease), ...failure });
    return held;
  }

  async bury(
    worker: string,
    job: string,
    {
      damage = 0,
      throttleMs = 0,
      attempt = '{}',
      reason = 'max_attempts',
      ...lease
    }: Held & Failing & { reason?: string } = {},
  ) {
    const failure = { bid: bidOf(job), damage, throttleMs, attempt, reason };
    return this.store.run('bury', { ...this.#held('main', worker, job, lease), ...failure });
  }

  /** Makes a dead letter of the batch that the worker of a quarantine held when it died. */
  async condemn(worker: string, heldBid?: string) {
    const { bid, ...rest } = await this.store.run('condemn', { worker, heldBid: heldBid && bidOf(heldBid) });
    return { job: bid && shortName(bid), ...rest };
  }

  /** Returns the workers whose leases are lost. */
  async heartbeat(workers: string[], { leaseMs = LEASE_MS, lease }: Held = {}): Promise<string[]> {
    const leases = workers.map((worker) => ({ worker, lease: lease ?? this.leases.get(worker) ?? 0 }));
    return this.store.run('heartbeat', { leaseMs, leases });
  }

  /** Returns the time at which the subscriber of a batch subscribed, as `acquire` would return it now. */
  async #subscriptionOf(job: string): Promise<string> {
    const { redis, keys } = this.store;
    const token = await redis.lindex(keys.batch(bidOf(job)), 0);
    return (token && (await redis.hget(keys.subscriber(token), 'subscribed_at'))) || '0';
  }

  async #handed({ worker, packed, batch, subscriber, dropNotice }: Grant): Promise<Handed> {
    const handed: Handed = { worker, job: shortName(jobName(packed)) };
    // A batch whose subscriber has left is not read.
    if (batch && subscriber) handed.batch = await this.#asStored(batch);
    if (subscriber) handed.subscriber = subscriber;
    if (dropNotice) handed.gap = dropNotice;
    return handed;
  }

  async #asStored({ bid, token, createdAtMs, attempts, count, pieces }: Batch): Promise<string[]> {
    const { redis, keys } = this.store;
    const [, , attempt, ...stored] = await redis.lrange(keys.batch(bid), 0, -1);
    // If this worker lost its job at once, another worker may have finished or attempted the batch since then. The
    // reply of acquire has no events (`pieces`) of a long batch. In both cases there is nothing to compare.
    if (attempt === String(attempts) && pieces.length > 0)
      assert.deepEqual([stored.length, stored.join(',')], [count, pieces.join(',')]);
    return [token, String(createdAtMs), String(attempts), ...stored];
  }

  #finished({ worker, job, lease, bid = bidOf(job), heal = 1, tookMs = 5, record = RECORD }: FinishedJob) {
    return {
      worker,
      job: packNamed(job),
      lease: lease ?? this.leases.get(worker) ?? 0,
      bid,
      heal,
      tookMs,
      record,
    };
  }

  #held(q: QueueName, worker: string, job: string, { lease, leaseMs = LEASE_MS }: Held) {
    return { q, worker, job: packNamed(job), lease: lease ?? this.leases.get(worker) ?? 0, leaseMs };
  }
}

function bidOf(job: string): string {
  return /\d$/.test(job) ? String(packNamed(job).subarray(-20)) : '';
}

/** Returns the time (ms) in a reply of `acquire`. */
function timeOf([head = Buffer.of()]: Reply<'acquire'>): number {
  return (decode(head) as number[])[1] as number;
}
