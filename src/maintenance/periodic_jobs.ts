import { promoteDue } from '../delivering/queue.ts';
import type { Partition } from '../store/partition.ts';
import { Autodrop } from './autodrop.ts';
import type { JobParts } from './job_parts.ts';
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

/** Every job of the `aux` queue. To add one, write its `run` in a file of its own and add a row. */
export function periodicJobs(parts: JobParts): PeriodicJob[] {
  const { config, partition, partitions, recorder, log, stopping } = parts;
  const autodrop = new Autodrop(parts, config);
  const scrub = scrubJob(partition, config.leaseMs, recorder, log);
  const sweep = sweepJob(parts);
  // Prometheus scrapes the figures of the whole bus; for the other services, one partition's job sends them.
  const sendsFigures = config.metricService !== 'prometheus' && partition === partitions.control;
  return [
    { name: 'autodrop', everyMs: 30_000, run: (signal) => autodrop.run(signal) },
    { name: 'monitor', everyMs: sendsFigures ? config.monitorIntervalMs : 0, run: monitorJob(parts) },
    // The scheduler promotes jobs when they are due; this is for the case that it cannot.
    { name: 'schedule', everyMs: 60_000, run: () => promoteAllDue(partition) },
    { name: 'scrub', everyMs: config.leaseMs / 3, run: scrub },
    // A sweep of a big bus takes minutes, and the next one does what this one leaves: a stopping process does not wait for it.
    {
      name: 'sweep',
      everyMs: config.sweepIntervalMs,
      run: (signal) => sweep(AbortSignal.any([signal, stopping])),
    },
  ];
}

async function promoteAllDue(partition: Partition): Promise<void> {
  while ((await promoteDue(partition)).nextDueMs === 0);
}
