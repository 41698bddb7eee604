import type { Config } from '../config.ts';
import { BULK_JOB } from '../delivering/dead_letters/bulks.ts';
import { autodrops, Queue } from '../delivering/queue.ts';
import { DONE, type JobHandler } from '../delivering/settlement.ts';
import { tickMs, Workers } from '../delivering/workers.ts';
import { ACL_ADVICE, StorageForbidden } from '../errors.ts';
import { agendaOf } from '../flow/agenda.ts';
import { uids } from '../ids.ts';
import { failureOf, type Log } from '../log.ts';
import type { Outbox } from '../publishing/outbox.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Wakeups } from '../store/wakeups.ts';
import { bulkJob } from './bulk_job.ts';
import type { JobParts } from './job_parts.ts';
import { outboxJob } from './outbox_job.ts';
import { type PeriodicJob, periodicJobs } from './periodic_jobs.ts';
import { watchRuby } from './ruby_watch.ts';
import { Scheduler } from './scheduler.ts';
import { sweepJob } from './sweep_job.ts';

const MAX_SLEEP_MS = 10_000;
const MAX_SLEEP_IF_PARTITIONED_MS = 20_000;
/**
 * A ticker is a timer that queues a periodic job. The partitions start their tickers one after the other within this
 * time, so that their jobs are not queued together. Tickers of urgent jobs start immediately.
 */
const TICKERS_BEGIN_WITHIN_MS = 10_000;
/**
 * Number of workers for the queue `aux` (jobs that deliver no batch): two, because a sweep can occupy one for minutes.
 */
const WORKERS = 2;
/**
 * Number of workers for `aux` in each partition, if there are several partitions. One may be busy with the outbox, and
 * another may wait for a partition that is away. The third does the other jobs.
 */
const WORKERS_IF_PARTITIONED = 3;

interface MaintenanceParts extends Omit<JobParts, 'config' | 'stopping'> {
  /**
   * The partitions, used to move triggers between them. If ROUTEMASTER_MIN_REPLICAS is set, each call that writes to a
   * partition waits until that many replicas have the change.
   */
  confirmed: Partitions;
  outbox: Outbox;
  /**
   * Wakes the workers when a job is ready, and the scheduler when a deadline is earlier than the one it waits for.
   * `Maintenance.stop` closes this.
   */
  wakeups: Wakeups;
}

/**
 * The maintenance of one partition: scheduler, tickers of periodic jobs, and workers for the queue `aux`, which has the
 * partition's jobs that deliver no batch.
 */
export class Maintenance {
  readonly #workers: Workers;
  readonly #wakeups: Wakeups;
  readonly #scheduler: Scheduler;
  /**
   * Watches for processes of a Ruby Routemaster whose Redis this bus took over. Undefined for a bus with several
   * partitions, which never takes over a Redis.
   */
  readonly #watchRuby: (() => Promise<void>) | undefined;
  #watching: Promise<void> | undefined;
  readonly #queue: Queue;
  readonly #jobs: readonly PeriodicJob[];
  readonly #tickersBeginMs: number;
  readonly #tickers: NodeJS.Timeout[] = [];
  readonly #stopping = new AbortController();
  readonly #log: Log;

  constructor(config: Config, { wakeups, ...parts }: MaintenanceParts) {
    const { partition, partitions, recorder, log } = parts;
    const { all } = partitions;
    const isAlone = all.length === 1;
    const queue = new Queue(partition, 'aux', config);
    const jobs = periodicJobs({ ...parts, config, stopping: this.#stopping.signal });
    const autodropIn = autodrops(partitions, config);
    // Called when the Redis of the partition `where` is full. Queues the job `autodrop` in all partitions of this
    // Redis, because each job drops only data of its own partition.
    const onFull = (where: Partition) =>
      autodropIn(partitions.byRedis().find((each) => each.includes(where)));
    const others = {
      outbox: outboxJob({ ...parts, leaseMs: config.leaseMs, onFull }),
      [BULK_JOB]: bulkJob({ ...parts, config, stopping: this.#stopping.signal }),
    };
    this.#wakeups = wakeups;
    this.#queue = queue;
    this.#jobs = jobs;
    this.#log = log;
    this.#workers = new Workers(
      { queue, handler: byName(jobs, others, log), recorder, log },
      {
        ids: uids(isAlone ? WORKERS : WORKERS_IF_PARTITIONED),
        tickMs: tickMs(config),
        ticksPerAsk: isAlone ? 1 : 2,
      },
    );
    wakeups.on('aux', () => this.#workers.wake());
    const agenda = agendaOf({ ...parts, config, onFull: () => onFull(partition) });
    const maxSleepMs = isAlone ? MAX_SLEEP_MS : MAX_SLEEP_IF_PARTITIONED_MS;
    this.#scheduler = new Scheduler({ partition, wakeups, agenda, maxSleepMs, log });
    if (isAlone) {
      const run = sweepJob(parts);
      const { signal } = this.#stopping;
      const sweep = (rubyWorkers: number) => run(signal, rubyWorkers);
      this.#watchRuby = () => watchRuby({ partition, leaseMs: config.leaseMs, sweep, log }, signal);
    }
    this.#tickersBeginMs = (TICKERS_BEGIN_WITHIN_MS * partition.index) / all.length;
  }

  start(): void {
    this.#workers.start();
    this.#scheduler.start();
    this.#watching = this.#watchRuby?.();
    for (const job of this.#jobs.filter(({ everyMs }) => everyMs > 0))
      if (job.isUrgent) this.#startTicker(job);
      else this.#tickers.push(setTimeout(() => this.#startTicker(job), this.#tickersBeginMs));
  }

  /** Queues a job now, and then at its interval, unless the job is still queued or running. */
  #startTicker({ name, everyMs }: PeriodicJob): void {
    const tick = () => {
      this.#queue.enqueue(name).catch((error: unknown) => {
        this.#log.warn({ job: name, ...failureOf(error) }, 'a ticker could not put its job');
      });
    };
    tick();
    this.#tickers.push(setInterval(tick, everyMs));
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#tickers.forEach(clearInterval);
    await Promise.all([this.#scheduler.stop(), this.#watching, this.#workers.stop(graceMs)]);
    this.#wakeups.close();
  }
}

/**
 * Returns one handler for all jobs of the queue `aux` (jobs that deliver no batch), periodic or not. A job of an
 * unknown name is deleted.
 */
function byName(jobs: readonly PeriodicJob[], others: Record<string, JobHandler>, log: Log): JobHandler {
  return async (grant, signal) => {
    const { job, packed } = grant;
    const other = others[job?.name ?? ''];
    if (other) return other(grant, signal);
    const periodic = jobs.find(({ name }) => name === job?.name);
    if (periodic) await periodic.run(signal).catch((error: unknown) => forbidden(periodic, error, log));
    else log.error({ job: job ?? packed.toString('hex') }, 'deleted a job of an unknown name');
    return DONE;
  };
}

/** Logs that the ACL of Redis forbids what a job needs. The next tick queues the job again. Throws any other error. */
function forbidden({ name }: PeriodicJob, error: unknown, log: Log): void {
  if (!(error instanceof StorageForbidden)) throw error;
  log.error({ job: name, ...failureOf(error) }, `Redis forbids what a job needs; ${ACL_ADVICE}`);
}
