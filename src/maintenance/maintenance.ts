import type { Config } from '../config.ts';
import { DONE, type JobHandler } from '../delivering/job_handler.ts';
import { Queue } from '../delivering/queue.ts';
import { tickMs, Workers } from '../delivering/workers.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Store } from '../store/store.ts';
import type { Wakeups } from '../store/wakeups.ts';
import { autodropJob } from './autodrop.ts';
import { monitorJob } from './monitor.ts';
import { scheduleJob } from './schedule.ts';
import { Scheduler } from './scheduler.ts';
import { scrubJob } from './scrub.ts';
import { sweepJob } from './sweep_job.ts';
import { Ticker } from './ticker.ts';

const AUTODROP_EVERY_MS = 30_000;
/** The scheduler promotes what is due when it is due; this job is for the case that it cannot. */
const SCHEDULE_EVERY_MS = 60_000;
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
    const sweep = sweepJob(store, config, recorder, log);
    const handlers: Record<string, JobHandler> = {
      autodrop: autodropJob(store, config, recorder, log),
      monitor: monitorJob(store, config, log),
      schedule: scheduleJob(store),
      scrub: scrubJob(store, config.leaseMs, recorder, log),
      // What it has not come to is left to the next: nobody need wait for it.
      sweep: (grant, signal) => sweep(grant, AbortSignal.any([signal, this.#stopping.signal])),
    };
    this.#workers = new Workers(
      { queue, wakeups, handler: byName(handlers, log), figures: recorder, log },
      { count: WORKERS, tickMs: tickMs(config) },
    );
    this.#scheduler = new Scheduler(store, wakeups, LONGEST_SLEEP_MS, log);
    const every = (job: string, ms: number) => new Ticker(queue, job, ms, log);
    this.#startTickers = () => [
      every('scrub', config.leaseMs / 3),
      every('autodrop', AUTODROP_EVERY_MS),
      every('schedule', SCHEDULE_EVERY_MS),
      every('sweep', config.sweepIntervalMs),
      // Prometheus comes and asks; the others are told.
      ...(config.metricService === 'prometheus' ? [] : [every('monitor', config.monitorIntervalMs)]),
    ];
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

function byName(handlers: Record<string, JobHandler>, log: Log): JobHandler {
  return async (grant, signal) => {
    const handler = grant.job && handlers[grant.job.name];
    if (handler) return handler(grant, signal);
    log.error(
      { job: grant.job ?? grant.packed.toBuffer().toString('hex') },
      'forgot a job that nobody knows how to run',
    );
    return DONE;
  };
}
