import type { Config } from '../config.ts';
import { Queue } from '../delivering/queue.ts';
import { DONE, type JobHandler } from '../delivering/settlement.ts';
import { tickMs, Workers } from '../delivering/workers.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Store } from '../store/store.ts';
import type { Wakeups } from '../store/wakeups.ts';
import { type PeriodicJob, periodicJobs } from './periodic_jobs.ts';
import { Scheduler } from './scheduler.ts';
import { Ticker } from './ticker.ts';

const MAX_SLEEP_MS = 10_000;
/** Two workers, so that other jobs do not wait for the sweep of a big bus, which takes minutes. */
const WORKERS = 2;

export interface MaintenanceParts {
  store: Store;
  wakeups: Wakeups;
  recorder: Recorder;
  log: Log;
}

/** The maintenance of a worker process: the scheduler, the tickers, and two workers for the `aux` queue. */
export class Maintenance {
  readonly #workers: Workers;
  readonly #scheduler: Scheduler;
  readonly #startTickers: () => Ticker[];
  readonly #stopping = new AbortController();
  #tickers: Ticker[] = [];

  constructor(config: Config, { store, wakeups, recorder, log }: MaintenanceParts) {
    const queue = new Queue(store, 'aux', config);
    const jobs = periodicJobs({ config, store, recorder, log, stopping: this.#stopping.signal });
    this.#workers = new Workers(
      { queue, handler: byName(jobs, log), recorder, log },
      { count: WORKERS, tickMs: tickMs(config) },
    );
    wakeups.on('aux', () => this.#workers.wake());
    this.#scheduler = new Scheduler(store, wakeups, MAX_SLEEP_MS, log);
    const periodic = jobs.filter(({ everyMs }) => everyMs > 0);
    this.#startTickers = () => periodic.map(({ name, everyMs }) => new Ticker(queue, name, everyMs, log));
  }

  start(): void {
    this.#workers.start();
    this.#scheduler.start();
    this.#tickers = this.#startTickers();
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    for (const ticker of this.#tickers) ticker.stop();
    await Promise.all([this.#scheduler.stop(), this.#workers.stop(graceMs)]);
  }
}

/** Runs the job that a grant names, and deletes one of an unknown name. */
function byName(jobs: readonly PeriodicJob[], log: Log): JobHandler {
  return async ({ job, packed }, signal) => {
    const periodic = jobs.find(({ name }) => name === job?.name);
    if (periodic) await periodic.run(signal);
    else log.error({ job: job ?? packed.toBuffer().toString('hex') }, 'deleted a job of an unknown name');
    return DONE;
  };
}
