import type { Partition } from '../../store/partition.ts';
import { sweepBatches } from './batches.ts';
import { sweepDelayed } from './delayed.ts';
import type { Finding } from './finding.ts';
import { sweepGauges } from './gauges.ts';
import { JobSweep } from './jobs.ts';
import { sweepJoins } from './joins.ts';
import { sweepLanes, sweepWorkers } from './lanes.ts';
import { sweepLeftovers } from './leftovers.ts';
import { sweepRecords } from './records.ts';
import { sweepTriggers } from './triggers.ts';
import { Walk } from './walk.ts';

/** The default of `maxJobs`. 200,000 jobs use about 20 MB of this process. */
const MAX_JOBS = 200_000;

interface SweepOptions {
  /** When this signal is aborted, the sweep ends early and returns the findings so far. */
  signal?: AbortSignal;
  /** Gets each finding right after its repair, so that the findings are known even if the sweep throws later. */
  findings?: Finding[];
  /** Maximum jobs of a queue that one sweep checks. If the queue has more, each sweep checks a random part of them. */
  maxJobs?: number;
  /**
   * Number of living workers of a Ruby Routemaster. They would lose a delivery job that they take. So while there are
   * any, lost delivery jobs are put into a list that they do not read (sweep_jobs.lua).
   */
  rubyWorkers?: number;
}

/**
 * Checks all data of a partition, repairs inconsistencies, and returns what it found. The bus and other sweeps may run
 * meanwhile. Throws StorageUnavailable or StorageFull. If another program has written keys of a wrong type, the sweep
 * checks everything else, and then throws the error of Redis.
 */
export async function sweep(partition: Partition, options: SweepOptions = {}): Promise<Finding[]> {
  const { signal = new AbortController().signal, findings = [], maxJobs = MAX_JOBS, rubyWorkers } = options;
  const walk = new Walk(partition, signal, findings);
  // Keep this order: each part of the sweep relies on the repairs of the earlier parts.
  const seen = await sweepBatches(walk, maxJobs);
  const waitingTokens = seen.of('jobs_waiting');
  await sweepWorkers(walk, seen.of('jobs_pending'));
  const main = new JobSweep(walk, 'main', { waitingTokens, jobless: seen.jobless, maxJobs, rubyWorkers });
  const aux = new JobSweep(walk, 'aux', { waitingTokens: [], jobless: [], maxJobs, rubyWorkers });
  for (const jobs of [main, aux]) await walk.skippable(jobs.run());
  await sweepLanes(walk, waitingTokens);
  await sweepJoins(walk, seen);
  // Gauges, such as the number of queued events, are not checked while a Ruby process uses this Redis. Ruby counts an
  // event in a gauge at once, but the sweep sees the event only after this bus has converted the Ruby batch. Until
  // then, a correct gauge would seem wrong.
  const isShared = rubyWorkers || findings.some(({ kind }) => kind === 'batch_of_ruby');
  if (!isShared) await sweepGauges(walk, seen);
  await sweepDelayed(walk, seen);
  await sweepTriggers(walk, seen);
  await sweepRecords(walk, seen);
  await sweepLeftovers(walk, seen);
  if (walk.unreadable) throw walk.unreadable;
  return findings;
}
