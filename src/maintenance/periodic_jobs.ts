import type { Config } from '../config.ts';
import { promoteDue, scrub } from '../delivering/queue.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Store } from '../store/store.ts';
import { Autodrop } from './autodrop.ts';
import { monitorJob } from './monitor.ts';
import { sweepJob } from './sweep_job.ts';

export interface PeriodicJob {
  /** The name of the job. The `aux` queue holds at most one job of a name. */
  name: string;
  /** The interval at which each process queues the job, beginning when it starts; 0 means never. */
  everyMs: number;
  /** Does the work once. An aborted `signal` asks it to end soon. If it throws, the next tick tries again. */
  run: (signal: AbortSignal) => Promise<void>;
}

interface JobParts {
  config: Config;
  store: Store;
  recorder: Recorder;
  log: Log;
  /** Aborted as soon as the process stops. The `signal` of a job is aborted only after the grace period. */
  stopping: AbortSignal;
}

/** Every job of the `aux` queue. To add one, write its `run` in a file of its own and add a row. */
export function periodicJobs({ config, store, recorder, log, stopping }: JobParts): PeriodicJob[] {
  const autodrop = new Autodrop(store, config, recorder, log);
  const monitor = monitorJob(store, config, log);
  const sweep = sweepJob(store, config, recorder, log);
  // Prometheus scrapes the figures, so they are not sent to it.
  const monitorEveryMs = config.metricService === 'prometheus' ? 0 : config.monitorIntervalMs;
  return [
    { name: 'autodrop', everyMs: 30_000, run: (signal) => autodrop.run(signal) },
    { name: 'monitor', everyMs: monitorEveryMs, run: monitor },
    // Normally the scheduler promotes due jobs. This job does so if the scheduler cannot.
    { name: 'schedule', everyMs: 60_000, run: () => promoteAllDue(store) },
    {
      name: 'scrub',
      everyMs: config.leaseMs / 3,
      run: () => scrubDead(store, config.leaseMs, recorder, log),
    },
    // A sweep takes minutes on a big bus, so it ends at once when the process stops. The next sweep does the
    // rest.
    {
      name: 'sweep',
      everyMs: config.sweepIntervalMs,
      run: (signal) => sweep(AbortSignal.any([signal, stopping])),
    },
  ];
}

async function promoteAllDue(store: Store): Promise<void> {
  while ((await promoteDue(store)).nextDueMs === 0);
}

/** Gives back the jobs of dead workers and removes these workers. */
async function scrubDead(store: Store, leaseMs: number, recorder: Recorder, log: Log): Promise<void> {
  const { workers, jobs } = await scrub(store, leaseMs);
  if (workers > 0 || jobs.main > 0 || jobs.aux > 0) log.warn({ workers, jobs }, 'scrubbed dead workers');
  recorder.scrubbed({ ...jobs, workers });
}
