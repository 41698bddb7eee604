import { batchOf, packJob, QUEUES, type QueueName } from '../store/job.ts';
import type { ScriptArgument } from '../store/script_values.ts';
import type { Store } from '../store/store.ts';
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
  readonly #store: Store;
  readonly #settings: QueueSettings;

  constructor(store: Store, name: QueueName, settings: QueueSettings) {
    this.#store = store;
    this.name = name;
    this.#settings = settings;
  }

  /** Puts an instant job in, unless the queue has it in any state. True if it was put in. */
  async enqueue(name: string): Promise<boolean> {
    return (await this.#store.run('enqueue', this.name, packJob(name), this.#settings.leaseMs)) === 1;
  }

  /**
   * Hands instant jobs to idle workers, one each at most. A worker that holds a job gets that one again. Before that, jobs
   * that are finished are forgotten as by `ack`, so that their workers can be among the idle.
   */
  async acquire(workers: readonly string[], finished: readonly Finished[] = []): Promise<Acquired> {
    const done = finished.flatMap(finishedArguments);
    const args = [...this.#lanes(), finished.length, ...done, ...workers];
    return readAcquired(await this.#store.run('acquire', ...args));
  }

  /**
   * Forgets a finished job, and deletes its batch. `left`: how many instant jobs there are; nobody else is told of those that
   * this call brought back.
   */
  async ack(finished: Finished): Promise<Acknowledged & { left: number }> {
    const reply = await this.#store.run('ack', ...this.#lanes(), ...finishedArguments(finished));
    const [held, removed, left] = reply as [number, number, number];
    return { held: held === 1, removed, left };
  }

  /** Takes a job back. False, and nothing has changed, if the worker does not hold it. */
  async nack(grant: Grant, { delayMs, damage, throttleMs, attempt, gone = '' }: Retry): Promise<boolean> {
    const bid = grant.batch?.bid ?? '';
    const cost = [damage, Math.ceil(throttleMs)];
    const story = [attempt ? attemptJson(attempt) : '', gone];
    const args = [...this.#held(grant), Math.ceil(delayMs), bid, ...cost, ...story];
    return (await this.#store.run('nack', ...args)) === 1;
  }

  /** Makes a dead letter of the job's batch. `held` is false, and nothing has changed, if the worker does not hold the job. */
  async bury(
    grant: Grant,
    { damage, throttleMs, attempt, reason }: Burial,
  ): Promise<{ held: boolean; buried: number }> {
    const bid = grant.batch?.bid ?? '';
    const death = [bid, damage, Math.ceil(throttleMs), attemptJson(attempt), reason];
    const [held, buried] = (await this.#store.run('bury', ...this.#held(grant), ...death)) as [
      number,
      number,
    ];
    return { held: held === 1, buried };
  }

  /** Renews the leases of workers; answers with those of which the lease is lost. */
  async heartbeat(held: readonly Grant[]): Promise<string[]> {
    const leases = held.flatMap(({ worker, lease }) => [worker, lease]);
    const lost = await this.#store.run('heartbeat', this.#settings.leaseMs, ...leases);
    return (lost as Buffer[]).map(String);
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

  #lanes(): ScriptArgument[] {
    const { leaseMs, laneLimit, laneLimitMax } = this.#settings;
    return [this.name, leaseMs, laneLimit, laneLimitMax];
  }

  #held({ worker, packed, lease }: Grant): ScriptArgument[] {
    return [this.name, worker, packed, lease, this.#settings.leaseMs];
  }
}

/**
 * No bytes where the script can tell the job by its batch: they would be turned to text, sent and read for nothing. (Where ioredis
 * writes the command, it takes 7 % of a worker's CPU with single events.)
 */
function finishedArguments({ grant, heal, tookMs }: Finished): ScriptArgument[] {
  const { worker, packed, lease, batch } = grant;
  const job = batch && batchOf(packed) === batch.bid ? '' : packed;
  return [worker, job, lease, batch?.bid ?? '', heal, Math.ceil(tookMs)];
}

/** How many jobs one script call promotes: a few milliseconds of Redis. */
const PROMOTE_SLICE = 500;

/**
 * Makes jobs of all queues that are due instant, up to 500. Answers in how many ms, to the µs, the next is due, 0 if some are left;
 * undefined: none.
 */
export async function promoteDue(store: Store): Promise<{ promoted: number; nextDueMs?: number }> {
  const [promoted, nextDueUs] = (await store.run('schedule', PROMOTE_SLICE, ...QUEUES)) as [number, number];
  return nextDueUs < 0 ? { promoted } : { promoted, nextDueMs: nextDueUs / 1000 };
}

/** Gives back the jobs of workers that were not heard of for `leaseMs`, and forgets the workers. */
export async function scrub(
  store: Store,
  leaseMs: number,
): Promise<{ workers: number; jobs: Record<QueueName, number> }> {
  const [workers, [main, aux]] = (await store.run('scrub', leaseMs, ...QUEUES)) as [number, [number, number]];
  return { workers, jobs: { main, aux } };
}
