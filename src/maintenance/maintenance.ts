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

const LONGEST_SLEEP_MS = 10_000;
/** A sweep of a big bus takes minutes, which the others must not wait for. */
const WORKERS = 2;

export interface AuxParts {
  store: Store;
  wakeups: Wakeups;
  recorder: Recorder;
  log: Log;
}

/** What a worker process does beside delivering: the scheduler, the tickers, and two workers for the `aux` queue. */
export class Aux {
  readonly #workers: Workers;
  readonly #scheduler: Scheduler;
  readonly #startTickers: () => Ticker[];
  readonly #stopping = new AbortController();
  #tickers: Ticker[] = [];

  constructor(config: Config, { store, wakeups, recorder, log }: AuxParts) {
    const queue = new Queue(store, 'aux', config);
    const jobs = periodicJobs({ config, store, recorder, log, stopping: this.#stopping.signal });
    this.#workers = new Workers(
      { queue, wakeups, handler: byName(jobs, log), figures: recorder, log },
      { count: WORKERS, tickMs: tickMs(config) },
    );
    this.#scheduler = new Scheduler(store, wakeups, LONGEST_SLEEP_MS, log);
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
