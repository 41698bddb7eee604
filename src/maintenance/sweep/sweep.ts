import type { Partition } from '../../store/partition.ts';
import { sweepBatches } from './batches.ts';
import type { Finding } from './finding.ts';
import { sweepGauges } from './gauges.ts';
import { JobSweep } from './jobs.ts';
import { sweepLanes, sweepWorkers } from './lanes.ts';
import { Walk } from './walk.ts';

/** Takes about 20 MB of this process while a sweep runs. */
const MAX_JOBS = 200_000;

export interface SweepOptions {
  /** Ends the sweep early, with the findings so far. */
  signal?: AbortSignal;
  /** Called with each finding when it has been mended, also by a sweep that throws later. */
  found?: (finding: Finding) => void;
  /** How many jobs of a queue one sweep looks at. Of a longer queue, each sweep takes another part. */
  maxJobs?: number;
}

/**
 * Looks at everything that a partition holds, mends inconsistencies and returns them. There are none unless the bus has a bug or
 * somebody changed its Redis. It may run while the bus works, and it takes its time. One sweep at a time is enough, but two do
 * no harm. Throws as Partition does.
 */
export async function sweep(store: Partition, options: SweepOptions = {}): Promise<Finding[]> {
  const { signal = new AbortController().signal, found = () => {}, maxJobs = MAX_JOBS } = options;
  const findings: Finding[] = [];
  const walk = new Walk(store, signal, (finding) => {
    findings.push(finding);
    found(finding);
  });
  // Each step relies on what the steps before it have mended.
  const { queued, buried, waiting, workers, jobless } = await sweepBatches(walk, maxJobs);
  await sweepWorkers(walk, workers);
  await new JobSweep(walk, 'main', { waiting, jobless, maxJobs }).run();
  await new JobSweep(walk, 'aux', { waiting: [], jobless: [], maxJobs }).run();
  await sweepLanes(walk, waiting);
  await sweepGauges(walk, { queued, buried });
  return findings;
}
