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
/** Interval of the `schedule` job, which promotes due jobs if every scheduler fails to. */
const SCHEDULE_EVERY_MS = 60_000;
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
    const sweep = sweepJob(store, config, recorder, log);
    const handlers: Record<string, JobHandler> = {
      autodrop: autodropJob(store, config, recorder, log),
      monitor: monitorJob(store, config, log),
      schedule: scheduleJob(store),
      scrub: scrubJob(store, config.leaseMs, recorder, log),
      // A stopping process ends its sweep at once: the next sweep does the rest.
      sweep: (grant, signal) => sweep(grant, AbortSignal.any([signal, this.#stopping.signal])),
    };
    this.#workers = new Workers(
      { queue, handler: byName(handlers, log), figures: recorder, log },
      { count: WORKERS, tickMs: tickMs(config) },
    );
    wakeups.on('aux', () => this.#workers.wake());
    this.#scheduler = new Scheduler(store, wakeups, MAX_SLEEP_MS, log);
    const every = (job: string, ms: number) => new Ticker(queue, job, ms, log);
    this.#startTickers = () => [
      every('scrub', config.leaseMs / 3),
      every('autodrop', AUTODROP_EVERY_MS),
      every('schedule', SCHEDULE_EVERY_MS),
      every('sweep', config.sweepIntervalMs),
      // Prometheus scrapes the figures; any other service gets them pushed by this job.
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
