import type { Config } from '../config.ts';
import { uidSeed } from '../ids.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import { packJob, type QueueName } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { msOf } from '../store/replies.ts';
import { type Acquired, readAcquired } from './acquired.ts';
import { attemptJson } from './attempt.ts';
import type { Grant } from './grant.ts';
import type { Acknowledged, Burial, Finished, Retry } from './settlement.ts';

/**
 * A subscriber becomes slow if a delivery to it takes longer than this. It stays slow until it accepts a batch in less
 * time. Only a part of the workers may deliver to slow subscribers at a time.
 */
export const SLOW_MS = 1000;

/**
 * The workers for which a script call acquires jobs: regular workers, spare workers (which help while all regular
 * workers of a thread stand still), or a quarantine (a process for batches that may have killed workers).
 */
export type WorkerKind = Arguments<'acquire'>['kind'];

export type QueueSettings = Pick<Config, 'laneLimit' | 'laneLimitMax' | 'leaseMs' | 'deliveryLog'>;

/** One queue of jobs. Each change of a job is one script call, so a crash leaves every job in exactly one state. */
export class Queue {
  readonly name: QueueName;
  readonly #partition: Partition;
  readonly #settings: QueueSettings & { slowMs: number };
  readonly #kind: WorkerKind;

  constructor(partition: Partition, name: QueueName, settings: QueueSettings, kind: WorkerKind = 'regular') {
    this.#partition = partition;
    this.name = name;
    // `settings` may be the whole configuration. Only what the scripts need is kept, because copying all settings into
    // the arguments of each call would take 3 µs.
    const { laneLimit, laneLimitMax, leaseMs, deliveryLog } = settings;
    this.#settings = { laneLimit, laneLimitMax, leaseMs, deliveryLog, slowMs: SLOW_MS };
    this.#kind = kind;
  }

  /**
   * Adds a job that is not a delivery, ready for any worker. Returns false if the queue already has the job. There are
   * two exceptions: a dead worker holds the job, or a script that was stopped half-way has left the job in none of the
   * queue's lists. Such a job would not run before a scrub or a sweep, so `enqueue` makes it ready again and returns
   * true.
   */
  async enqueue(name: string): Promise<boolean> {
    return this.#partition.run('enqueue', {
      q: this.name,
      job: packJob(name),
      leaseMs: this.#settings.leaseMs,
    });
  }

  /**
   * Deletes the `finished` jobs and their batches. Then assigns at most one ready job to each of `workers`. A worker
   * that already holds a job gets the same job again: the reply that assigned it must have been lost.
   *
   * If the ACL of Redis forbids a command, the script stops half-way. Jobs may then be in none of the queue's lists
   * until the next sweep. So after such an error, no job is assigned until all commands are permitted: calls throw
   * StorageForbidden unless `workers` is empty (`runPermitted`).
   */
  async acquire(workers: readonly string[], finished: readonly Finished[] = []): Promise<Acquired> {
    const args = {
      q: this.name,
      ...this.#settings,
      finished: finished.map(finishedArguments),
      workers,
      kind: this.#kind,
      uidSeed: uidSeed(),
    };
    const reply =
      workers.length > 0
        ? this.#partition.runPermitted('acquire', args)
        : this.#partition.run('acquire', args);
    return readAcquired(await reply);
  }

  /** Deletes one finished job and its batch. Acquires no job. */
  async ack(finished: Finished): Promise<Acknowledged> {
    const [acknowledged] = (await this.acquire([], [finished])).acks as [Acknowledged];
    return acknowledged;
  }

  /** Puts a job that has not succeeded back into the queue. Changes nothing if the worker no longer holds the job. */
  async nack(
    grant: Grant,
    { delayMs, damage, throttleMs, attempt, gone, isUncounted = false }: Retry,
  ): Promise<Reply<'nack'>> {
    return this.#partition.runNotingForbidden('nack', {
      ...this.#held(grant),
      bid: grant.batch?.bid,
      delayMs: Math.ceil(delayMs),
      damage,
      throttleMs: Math.ceil(throttleMs),
      attempt: attempt && attemptJson(attempt),
      gone,
      callback: grant.subscriber?.callback,
      isUncounted,
    });
  }

  /** Makes a dead letter of the job's batch. Changes nothing if the worker no longer holds the job. */
  async bury(grant: Grant, { damage, throttleMs, attempt, reason }: Burial): Promise<Reply<'bury'>> {
    return this.#partition.runNotingForbidden('bury', {
      ...this.#held(grant),
      bid: grant.batch?.bid ?? '',
      damage,
      throttleMs: Math.ceil(throttleMs),
      callback: grant.subscriber?.callback,
      attempt: attemptJson(attempt),
      reason,
    });
  }

  /** Renews the leases of the jobs in `held`. Returns the workers that have lost their leases. */
  async heartbeat(held: readonly Grant[]): Promise<string[]> {
    return this.#partition.run('heartbeat', { leaseMs: this.#settings.leaseMs, leases: held });
  }

  /** Removes workers that have ended. A worker that still holds a job is left to the periodic job `scrub`. */
  async retire(workers: readonly string[]): Promise<void> {
    await this.#partition.run('retire', { q: this.name, workers });
  }

  /** Returns the number of jobs that workers can take now or that are due within `withinMs`. */
  async due(withinMs: number): Promise<number> {
    return this.#partition.command(async (redis, keys) => {
      const untilMs = msOf(await redis.time()) + withinMs;
      const [instant, scheduled] = await Promise.all([
        redis.llen(keys.jobs_instant(this.name)),
        redis.zcount(keys.jobs_scheduled(this.name), '-inf', untilMs),
      ]);
      return instant + scheduled;
    });
  }

  #held({ worker, packed, lease }: Grant) {
    return { q: this.name, worker, job: packed, lease, leaseMs: this.#settings.leaseMs };
  }
}

/** Returns a finished job as an argument of the script `acquire`. */
function finishedArguments({
  grant: { worker, packed, lease, batch },
  heal,
  tookMs,
  record,
}: Finished): Arguments<'acquire'>['finished'][number] {
  return { worker, job: packed, lease, bid: batch?.bid, heal, tookMs: Math.ceil(tookMs), record };
}

/**
 * Returns a function that queues the job `autodrop` in the given partitions, or in all. The job frees memory. Errors
 * are ignored.
 */
export function autodrops(
  partitions: Partitions,
  settings: QueueSettings,
): (short?: readonly Partition[]) => void {
  const queues = partitions.all.map((partition) => new Queue(partition, 'aux', settings));
  return (short = partitions.all) => {
    for (const { index } of short) queues[index]?.enqueue('autodrop').catch(() => {});
  };
}
