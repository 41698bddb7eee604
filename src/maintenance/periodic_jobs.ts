import type { Config } from '../config.ts';
import { promoteDue } from '../delivering/queue.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partition } from '../store/partition.ts';
import { Autodrop } from './autodrop.ts';
import { monitorJob } from './monitor.ts';
import { scrubJob } from './scrub.ts';
import { sweepJob } from './sweep_job.ts';

export interface PeriodicJob {
  /** Its name in the `aux` queue. Whatever the number of processes, the queue holds one job of a name. */
  name: string;
  /** How often a process puts the job in the queue, beginning when it starts; 0: never. */
  everyMs: number;
  /**
   * Does the work once. An aborted `signal` asks it to end soon. After an error the next tick tries again, and sooner if Redis
   * was away.
   */
  run: (signal: AbortSignal) => Promise<void>;
}

export interface JobParts {
  config: Config;
  store: Partition;
  recorder: Recorder;
  log: Log;
  /** Aborted as soon as the process stops; the signal that a job gets is aborted only when the grace period is over. */
  stopping: AbortSignal;
}

/** Every job of the `aux` queue. To add one, write its `run` in a file of its own and add a row. */
export function periodicJobs({ config, store, recorder, log, stopping }: JobParts): PeriodicJob[] {
  const autodrop = new Autodrop(store, config, recorder, log);
  const monitor = monitorJob(store, config, log);
  const scrub = scrubJob(store, config.leaseMs, recorder, log);
  const sweep = sweepJob(store, config, recorder, log);
  // Prometheus scrapes the figures; they are sent to the other services.
  const monitorEveryMs = config.metricService === 'prometheus' ? 0 : config.monitorIntervalMs;
  return [
    { name: 'autodrop', everyMs: 30_000, run: (signal) => autodrop.run(signal) },
    { name: 'monitor', everyMs: monitorEveryMs, run: monitor },
    // The scheduler promotes jobs when they are due; this is for the case that it cannot.
    { name: 'schedule', everyMs: 60_000, run: () => promoteAllDue(store) },
    { name: 'scrub', everyMs: config.leaseMs / 3, run: scrub },
    // A sweep of a big bus takes minutes, and the next one does what this one leaves: a stopping process does not wait for it.
    {
      name: 'sweep',
      everyMs: config.sweepIntervalMs,
      run: (signal) => sweep(AbortSignal.any([signal, stopping])),
    },
  ];
}

async function promoteAllDue(store: Partition): Promise<void> {
  while ((await promoteDue(store)).nextDueMs === 0);
}
