import { repairCopies } from '../authentication/client_copies.ts';
import { DeadLetters } from '../delivering/dead_letters/dead_letters.ts';
import { isPassing } from '../errors.ts';
import { failureOf, type Log } from '../log.ts';
import { STEPS } from '../metrics/history.ts';
import type { Partition } from '../store/partition.ts';
import { Autodrop } from './autodrop.ts';
import type { JobParts } from './job_parts.ts';
import { monitorJob } from './monitor.ts';
import { promoteDue } from './promoting.ts';
import { sampleJob } from './sampling.ts';
import { StorageWatch } from './storage_watch.ts';
import { sweepCrossing } from './sweep_crossing.ts';
import { sweepJob } from './sweep_job.ts';

export interface PeriodicJob {
  /** The name of the job. The queue has at most one periodic job of a name. */
  name: string;
  /**
   * Interval (ms) at which each process queues the job. The first time is soon after the process has started. 0 means
   * never.
   */
  everyMs: number;
  /** True if a starting process queues the job in all partitions immediately, not in one partition after the other. */
  isUrgent?: boolean;
  /**
   * Does the job's work once. Returns early if `signal` is aborted. After an error the job is run again: soon if Redis
   * was away or full, and otherwise at its usual interval.
   */
  run: (signal: AbortSignal) => Promise<void>;
}

/** All periodic jobs: jobs that each process queues at intervals. */
export function periodicJobs(parts: JobParts): PeriodicJob[] {
  const { config, partition, partitions, oneAtATime, stopping, log } = parts;
  const autodrop = new Autodrop(parts, config);
  const watch = new StorageWatch([partition], log);
  // With several partitions some jobs run less often, so that an idle process sends fewer commands.
  const isAlone = partitions.all.length === 1;
  const sweepParts: PeriodicJob['run'][] = [];
  if (partition !== partitions.control)
    sweepParts.push(withOthers((signal) => repairClients(parts, signal), log));
  sweepParts.push(sweepJob(parts));
  const crossing = { partition, partitions, leaseMs: config.leaseMs };
  if (!isAlone) sweepParts.push(withOthers((signal) => sweepCrossing(crossing, signal), log));
  // The job `monitor` runs only in the control partition, because it sends the figures of the whole bus.
  const sendsFigures = config.metricService !== 'prometheus' && partition === partitions.control;
  return [
    // Usually this job does not wait for its interval: when a process stores something and notices that memory is
    // short, it queues the job immediately.
    {
      name: 'autodrop',
      everyMs: isAlone ? 30_000 : 120_000,
      run: async (signal) => {
        await watch.look();
        await autodrop.run(signal);
      },
    },
    { name: 'monitor', everyMs: sendsFigures ? config.monitorIntervalMs : 0, run: monitorJob(parts) },
    { name: 'sample', everyMs: partition === partitions.control ? STEPS.fine.ms : 0, run: sampleJob(parts) },
    // Moves due jobs to the list from which workers take them, in case the scheduler has missed them.
    { name: 'schedule', everyMs: isAlone ? 60_000 : 300_000, run: () => promoteAllDue(partition) },
    // Takes jobs back from workers that were killed, so that other workers can run them. A starting process queues this
    // job in all partitions immediately (`isUrgent`). Otherwise the job would never run on a host that kills each
    // process after a few seconds.
    {
      name: 'scrub',
      everyMs: isAlone ? config.leaseMs / 2 : config.leaseMs,
      isUrgent: true,
      run: () => scrubDead(parts),
    },
    // A sweep can take minutes, so it ends early when the process begins to stop. The next sweep checks everything
    // again.
    {
      name: 'sweep',
      everyMs: config.sweepIntervalMs,
      run: (signal) => oneAtATime.run('sweep', () => runAll(sweepParts, AbortSignal.any([signal, stopping]))),
    },
  ];
}

/** Runs all parts of a job, even if one fails, for example at an unreadable key. Then throws the first error. */
async function runAll(parts: readonly PeriodicJob['run'][], signal: AbortSignal): Promise<void> {
  const errors: unknown[] = [];
  for (const run of parts) await run(signal).catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

/**
 * Returns a part of a sweep that needs other partitions too. While another partition fails, this part leaves the rest
 * of its work to the next sweep. If this part threw the error, the whole sweep would run again every second until that
 * partition is back.
 */
function withOthers(run: PeriodicJob['run'], log: Log): PeriodicJob['run'] {
  return (signal) =>
    run(signal).catch((error: unknown) => {
      if (!isPassing(error)) throw error;
      log.warn(failureOf(error), 'a sweep cannot repair what partitions share; the next one tries again');
    });
}

/**
 * Corrects this partition's copies of the clients; the originals are in the control partition. Ends each join that the
 * corrected scopes of its client no longer permit, and purges the join's dead letters.
 */
async function repairClients(
  { partition, partitions, config }: JobParts,
  signal: AbortSignal,
): Promise<void> {
  const { ended, error } = await repairCopies(partitions.control, partition, signal);
  const deadLetters = new DeadLetters(partitions, config, () => {});
  for (const join of ended) await deadLetters.purgeAll(join);
  if (error !== undefined) throw error;
}

async function promoteAllDue(partition: Partition): Promise<void> {
  while ((await promoteDue(partition)).nextDueMs === 0);
}

async function scrubDead({ config, partition, recorder, log }: JobParts): Promise<void> {
  const { hasOthers } = partition;
  const { workers, jobs } = await partition.run('scrub', { leaseMs: config.leaseMs, hasOthers });
  if (workers > 0 || jobs.main > 0 || jobs.aux > 0) log.warn({ workers, jobs }, 'scrubbed dead workers');
  recorder.scrubbed({ ...jobs, workers });
}
