import type { Arguments } from '../store/contracts.ts';
import { batchOf, packJob, QUEUES, type QueueName } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import { type Acquired, readAcquired } from './acquired.ts';
import { attemptJson } from './attempt.ts';
import type { Grant } from './grant.ts';
import type { Acknowledged, Burial, Finished, Retry } from './settlement.ts';

export interface QueueSettings {
  /** How many deliveries to one subscriber may be in flight, over all processes, unless it asked for another number. */
  laneLimit: number;
  /** The most that it may ask for. */
  laneLimitMax: number;
  /** How long a worker holds a job without being heard of. */
  leaseMs: number;
}

/** One queue of jobs. Each call is one script: a crash leaves every job in exactly one state. */
export class Queue {
  readonly name: QueueName;
  readonly #store: Partition;
  readonly #settings: QueueSettings;

  constructor(store: Partition, name: QueueName, settings: QueueSettings) {
    this.#store = store;
    this.name = name;
    this.#settings = settings;
  }

  /** Puts an instant job in, unless the queue has it in any state. True if it was put in. */
  async enqueue(name: string): Promise<boolean> {
    return this.#store.run('enqueue', { q: this.name, job: packJob(name), leaseMs: this.#settings.leaseMs });
  }

  /**
   * Hands instant jobs to idle workers, one each at most. A worker that holds a job gets that one again. Before that, jobs
   * that are finished are forgotten as by `ack`, so that their workers can be among the idle.
   */
  async acquire(workers: readonly string[], finished: readonly Finished[] = []): Promise<Acquired> {
    const args = { q: this.name, ...this.#settings, finished: finished.map(finishedArguments), workers };
    return readAcquired(await this.#store.run('acquire', args));
  }

  /**
   * Forgets a finished job, and deletes its batch. `left`: how many instant jobs there are; nobody else is told of those that
   * this call brought back.
   */
  async ack(finished: Finished): Promise<Acknowledged & { left: number }> {
    return this.#store.run('ack', { q: this.name, ...this.#settings, ...finishedArguments(finished) });
  }

  /** Takes a job back. False, and nothing has changed, if the worker does not hold it. */
  async nack(grant: Grant, { delayMs, damage, throttleMs, attempt, gone }: Retry): Promise<boolean> {
    return this.#store.run('nack', {
      ...this.#held(grant),
      bid: grant.batch?.bid,
      delayMs: Math.ceil(delayMs),
      damage,
      throttleMs: Math.ceil(throttleMs),
      attempt: attempt && attemptJson(attempt),
      gone,
    });
  }

  /** Makes a dead letter of the job's batch. `held` is false, and nothing has changed, if the worker does not hold the job. */
  async bury(
    grant: Grant,
    { damage, throttleMs, attempt, reason }: Burial,
  ): Promise<{ held: boolean; buried: number }> {
    return this.#store.run('bury', {
      ...this.#held(grant),
      bid: grant.batch?.bid ?? '',
      damage,
      throttleMs: Math.ceil(throttleMs),
      attempt: attemptJson(attempt),
      reason,
    });
  }

  /** Renews the leases of workers; answers with those of which the lease is lost. */
  async heartbeat(held: readonly Grant[]): Promise<string[]> {
    return this.#store.run('heartbeat', { leaseMs: this.#settings.leaseMs, leases: held });
  }

  /** Forgets workers that end; one that still holds a job is left to the scrub. */
  async retire(workers: readonly string[]): Promise<void> {
    await this.#store.run('retire', { q: this.name, workers });
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

  #held({ worker, packed, lease }: Grant) {
    return { q: this.name, worker, job: packed, lease, leaseMs: this.#settings.leaseMs };
  }
}

/**
 * No bytes where the script can tell the job by its batch: they would be turned to text, sent and read for nothing. (Where ioredis
 * writes the command, it takes 7 % of a worker's CPU with single events.)
 */
function finishedArguments({ grant, heal, tookMs }: Finished): Arguments<'acquire'>['finished'][number] {
  const { worker, packed, lease, batch } = grant;
  const job = batch && batchOf(packed) === batch.bid ? undefined : packed;
  return { worker, job, lease, bid: batch?.bid, heal, tookMs: Math.ceil(tookMs) };
}

/** How many jobs one script call promotes: a few milliseconds of Redis. */
const PROMOTE_SLICE = 500;

/**
 * Makes jobs of all queues that are due instant, up to 500. Answers in how many ms, to the µs, the next is due, 0 if some are left;
 * undefined: none.
 */
export async function promoteDue(store: Partition): Promise<{ promoted: number; nextDueMs?: number }> {
  const { promoted, nextDueUs } = await store.run('schedule', { limit: PROMOTE_SLICE, queues: QUEUES });
  return nextDueUs === undefined ? { promoted } : { promoted, nextDueMs: nextDueUs / 1000 };
}

/** Gives back the jobs of workers that were not heard of for `leaseMs`, and forgets the workers. */
export async function scrub(
  store: Partition,
  leaseMs: number,
): Promise<{ workers: number; jobs: Record<QueueName, number> }> {
  const { workers, jobs } = await store.run('scrub', { leaseMs, queues: QUEUES });
  const [main = 0, aux = 0] = jobs;
  return { workers, jobs: { main, aux } };
}
