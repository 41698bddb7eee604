import type { ScriptReply, Store } from '../redis/store.ts';
import { type Batch, readBatch } from './batch.ts';
import { type Job, packJob, QUEUES, type QueueName, unpackJob } from './job.ts';
import { readSubscriber, type Subscriber } from './subscriber.ts';

/** A job in a worker's hands, until it is acknowledged or taken back. */
export interface Grant {
  worker: string;
  /** The job as stored: what ack and nack name. */
  packed: Buffer;
  /** Undefined if the bytes are no job. */
  job: Job | undefined;
  /** When the grant was given, ms by Redis's clock. */
  atMs: number;
  /** For a job that delivers: its batch, and the subscriber if there still is one. */
  batch?: Batch;
  subscriber?: Subscriber;
}

export interface Acquired {
  grants: Grant[];
  /** How many instant jobs were left. */
  left: number;
}

export interface Acknowledged {
  /** False, and nothing has changed, if the worker does not hold the job. */
  held: boolean;
  /** How many events the batch held. */
  removed: number;
  /** How many instant jobs there are; nobody else is told of those that this call brought back. */
  left: number;
}

export interface Retry {
  /** When to run the job again; 0: at once. */
  delayMs: number;
  /** The health points that a failed delivery costs; 0 for a job that was only given back. */
  damage: number;
  /** How long no delivery to the subscriber is tried. */
  throttleMs: number;
}

/** One queue of jobs. Each call is one script: a crash leaves every job in exactly one state. */
export class Queue {
  readonly name: QueueName;
  readonly #store: Store;
  readonly #laneLimit: number;

  /** `laneLimit`: how many deliveries to one subscriber may be in flight, over all processes. */
  constructor(store: Store, name: QueueName, laneLimit: number) {
    this.#store = store;
    this.name = name;
    this.#laneLimit = laneLimit;
  }

  /** Puts an instant job in, unless the queue has it in any state. True if it was put in. */
  async enqueue(name: string, leaseMs: number): Promise<boolean> {
    return (await this.#store.run('enqueue', this.name, packJob(name), leaseMs)) === 1;
  }

  /** Hands instant jobs to idle workers, one each at most. A worker that holds a job gets that one again. */
  async acquire(workers: readonly string[]): Promise<Acquired> {
    const reply = await this.#store.run('acquire', this.name, this.#laneLimit, ...workers);
    const [left, now, grants] = reply as [number, number, ScriptReply[]];
    return { left, grants: grants.map((grant) => readGrant(grant as GrantReply, now)) };
  }

  /** Forgets a finished job, and deletes its batch. */
  async ack(grant: Grant, heal: number): Promise<Acknowledged> {
    const bid = grant.batch?.bid ?? '';
    const reply = await this.#store.run('ack', ...this.#held(grant), bid, heal, this.#laneLimit);
    const [held, removed, left] = reply as [number, number, number];
    return { held: held === 1, removed, left };
  }

  /** Takes a job back. False, and nothing has changed, if the worker does not hold it. */
  async nack(grant: Grant, retry: Retry): Promise<boolean> {
    const bid = grant.batch?.bid ?? '';
    const { delayMs, damage, throttleMs } = retry;
    const delivery = [bid, damage, Math.ceil(throttleMs)] as const;
    return (await this.#store.run('nack', ...this.#held(grant), Math.ceil(delayMs), ...delivery)) === 1;
  }

  /** Forgets workers that end; one that still holds a job is left to the scrub. */
  async retire(workers: readonly string[]): Promise<void> {
    await this.#store.run('retire', this.name, ...workers);
  }

  /** How many jobs are due now, or will be within `withinMs`. */
  async due(withinMs: number): Promise<number> {
    return this.#store.command(async (redis, keys) => {
      const [seconds, micros] = await redis.time();
      const until = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) + withinMs;
      const [instant, scheduled] = await Promise.all([
        redis.llen(keys.jobs_instant(this.name)),
        redis.zcount(keys.jobs_scheduled(this.name), '-inf', until),
      ]);
      return instant + scheduled;
    });
  }

  #held(grant: Grant): [q: string, worker: string, job: Buffer] {
    return [this.name, grant.worker, grant.packed];
  }
}

type GrantReply = [worker: Buffer, job: Buffer, batch?: Buffer[], subscriber?: Buffer[]];

function readGrant([worker, packed, list, fields]: GrantReply, now: number): Grant {
  const job = unpackJob(packed);
  const grant: Grant = { worker: String(worker), packed, job, atMs: now };
  if (list) grant.batch = readBatch(String(job?.args[0]), list);
  const subscriber = fields && readSubscriber(fields);
  if (subscriber) grant.subscriber = subscriber;
  return grant;
}

/** How many jobs one script call promotes: a few milliseconds of Redis. */
const PROMOTE_SLICE = 500;

/** Makes jobs of all queues that are due instant, up to 500. Answers in how many ms the next is due, 0 if some are left; undefined: none. */
export async function promoteDue(store: Store): Promise<{ promoted: number; nextDueMs?: number }> {
  const [promoted, nextDueMs] = (await store.run('schedule', PROMOTE_SLICE, ...QUEUES)) as [number, number];
  return nextDueMs < 0 ? { promoted } : { promoted, nextDueMs };
}

/** Gives back the jobs of workers that were not heard of for `leaseMs`, and forgets the workers. */
export async function scrub(
  store: Store,
  leaseMs: number,
): Promise<{ workers: number; jobs: Record<QueueName, number> }> {
  const [workers, [main, aux]] = (await store.run('scrub', leaseMs, ...QUEUES)) as [number, [number, number]];
  return { workers, jobs: { main, aux } };
}

/** Says that workers are alive. */
export async function heartbeat(store: Store, workers: readonly string[]): Promise<void> {
  await store.run('heartbeat', ...workers);
}
