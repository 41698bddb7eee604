import type { Partition } from '../../store/partition.ts';
import { sweepBatches } from './batches.ts';
import type { Finding } from './finding.ts';
import { sweepGauges } from './gauges.ts';
import { JobSweep } from './jobs.ts';
import { sweepLanes, sweepWorkers } from './lanes.ts';
import { sweepLeftovers } from './leftovers.ts';
import { Walk } from './walk.ts';

/** Maximum jobs of a queue that one sweep checks; 200,000 use about 20 MB of this process. */
const MAX_JOBS = 200_000;

interface SweepOptions {
  /** When aborted, the sweep ends early and returns the findings so far. */
  signal?: AbortSignal;
  /** Gets each finding after its repair, even if the sweep throws later. */
  findings?: Finding[];
  /** Maximum jobs of a queue that one sweep checks. In a longer queue, each sweep checks a random part. */
  maxJobs?: number;
  /** Number of living workers of the Ruby Routemaster, which do not get the jobs that the sweep repairs. */
  rubyWorkers?: number;
}

/**
 * Checks all data of a partition, repairs inconsistencies and returns them. There are none unless the bus has
 * a bug or somebody changed its Redis. It may run while the bus works, and several sweeps may run at once.
 * Throws as Partition does.
 */
export async function sweep(partition: Partition, options: SweepOptions = {}): Promise<Finding[]> {
  const { signal = new AbortController().signal, findings = [], maxJobs = MAX_JOBS, rubyWorkers } = options;
  const walk = new Walk(partition, signal, findings);
  // Each step relies on the repairs of the steps before it.
  const { queued, buried, waiting, owners, workers, jobless } = await sweepBatches(walk, maxJobs);
  await sweepWorkers(walk, workers);
  await new JobSweep(walk, 'main', { waiting, jobless, maxJobs, rubyWorkers }).run();
  await new JobSweep(walk, 'aux', { waiting: [], jobless: [], maxJobs, rubyWorkers }).run();
  await sweepLanes(walk, waiting);
  // A Ruby process counts an event before its batch is one of this bus. So the gauges are left to the next sweep.
  const isShared = rubyWorkers || findings.some(({ kind }) => kind === 'batch_of_ruby');
  if (!isShared) await sweepGauges(walk, { queued, buried });
  await sweepLeftovers(walk, { owners });
  return findings;
}
