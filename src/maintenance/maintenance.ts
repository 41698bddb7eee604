import type { Config } from '../config.ts';
import { Queue } from '../delivering/queue.ts';
import { DONE, type JobHandler } from '../delivering/settlement.ts';
import { tickMs, Workers } from '../delivering/workers.ts';
import { agendaOf } from '../flow/agenda.ts';
import { uids } from '../ids.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Wakeups } from '../store/wakeups.ts';
import type { JobParts } from './job_parts.ts';
import { type PeriodicJob, periodicJobs } from './periodic_jobs.ts';
import { RubyWatch } from './ruby_watch.ts';
import { Scheduler } from './scheduler.ts';
import { sweepJob } from './sweep_job.ts';

const MAX_SLEEP_MS = 10_000;
/** Number of workers. Two, because the sweep of a big bus occupies one of them for minutes. */
const WORKERS = 2;

interface MaintenanceParts extends Omit<JobParts, 'config' | 'stopping'> {
  /** The maintenance closes these wake-ups when it stops. */
  wakeups: Wakeups;
}

/** The maintenance of one partition: the scheduler, the tickers, and two workers for the `aux` queue. */
export class Maintenance {
  readonly #workers: Workers;
  readonly #wakeups: Wakeups;
  readonly #scheduler: Scheduler;
  readonly #rubyWatch: RubyWatch;
  readonly #startTickers: () => NodeJS.Timeout[];
  readonly #stopping = new AbortController();
  #tickers: NodeJS.Timeout[] = [];

  constructor(config: Config, { wakeups, ...parts }: MaintenanceParts) {
    const { partition, recorder, log } = parts;
    const queue = new Queue(partition, 'aux', config);
    const jobs = periodicJobs({ ...parts, config, stopping: this.#stopping.signal });
    this.#wakeups = wakeups;
    this.#workers = new Workers(
      { queue, handler: byName(jobs, log), recorder, log },
      { ids: uids(WORKERS), tickMs: tickMs(config) },
    );
    wakeups.on('aux', () => this.#workers.wake());
    const onFull = () => void queue.enqueue('autodrop').catch(() => {});
    const agenda = agendaOf({ ...parts, config, onFull });
    this.#scheduler = new Scheduler({ partition, wakeups, agenda, maxSleepMs: MAX_SLEEP_MS, log });
    const sweep = sweepJob(parts);
    this.#rubyWatch = new RubyWatch({
      partition,
      leaseMs: config.leaseMs,
      sweep: (rubyWorkers) => sweep(this.#stopping.signal, rubyWorkers),
      log,
    });
    const periodic = jobs.filter(({ everyMs }) => everyMs > 0);
    this.#startTickers = () => periodic.map((job) => startTicker(queue, job, log));
  }

  start(): void {
    this.#workers.start();
    this.#scheduler.start();
    this.#rubyWatch.start();
    this.#tickers = this.#startTickers();
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#tickers.forEach(clearInterval);
    await Promise.all([this.#scheduler.stop(), this.#rubyWatch.stop(), this.#workers.stop(graceMs)]);
    this.#wakeups.close();
  }
}

/**
 * Returns a handler that runs the periodic job that has the name of the acquired job. Jobs of other names
 * are deleted.
 */
function byName(jobs: readonly PeriodicJob[], log: Log): JobHandler {
  return async ({ job, packed }, signal) => {
    const periodic = jobs.find(({ name }) => name === job?.name);
    if (periodic) await periodic.run(signal);
    else log.error({ job: job ?? packed.toBuffer().toString('hex') }, 'deleted a job of an unknown name');
    return DONE;
  };
}

/**
 * Queues a job at once and then at its interval. Several processes may do so, because the queue holds a job
 * only once.
 */
function startTicker(aux: Queue, { name, everyMs }: PeriodicJob, log: Log): NodeJS.Timeout {
  const tick = () => {
    aux.enqueue(name).catch((error: unknown) => {
      log.warn({ job: name, reason: reasonOf(error) }, 'a ticker could not put its job');
    });
  };
  tick();
  return setInterval(tick, everyMs);
}
