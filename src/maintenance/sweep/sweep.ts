import type { Store } from '../../store/store.ts';
import { sweepBatches } from './batches.ts';
import type { Finding } from './finding.ts';
import { sweepGauges } from './gauges.ts';
import { JobSweep } from './jobs.ts';
import { sweepLanes, sweepWorkers } from './lanes.ts';
import { Walk } from './walk.ts';

/** About 20 MB of ours while a sweep runs. */
const MOST_JOBS = 200_000;

export interface SweepOptions {
  /** Ends the sweep early, with what it has found by then. */
  signal?: AbortSignal;
  /** Told of each finding as it is mended: a sweep that throws has mended what it told of. */
  found?: (finding: Finding) => void;
  /** How many jobs of a queue one sweep looks at; with more, each sweep looks at another part. */
  mostJobs?: number;
}

/**
 * Looks at all that a partition holds, mends what does not fit together, and answers what that was: nothing, unless
 * something is wrong with the bus or somebody meddled with its Redis. Can run beside everything else, and is in no hurry.
 * One at a time; two would not harm each other. Throws as Store does.
 */
export async function sweep(store: Store, options: SweepOptions = {}): Promise<Finding[]> {
  const { signal = new AbortController().signal, found = () => {}, mostJobs: most = MOST_JOBS } = options;
  const findings: Finding[] = [];
  const walk = new Walk(store, signal, (finding) => {
    findings.push(finding);
    found(finding);
  });
  // Each step relies on what those before it have mended.
  const { queued, buried, waiting, workers, jobless } = await sweepBatches(walk, most);
  await sweepWorkers(walk, workers);
  await new JobSweep(walk, 'main', { waiting, jobless, most }).run();
  await new JobSweep(walk, 'aux', { waiting: [], jobless: [], most }).run();
  await sweepLanes(walk, waiting);
  await sweepGauges(walk, { queued, buried });
  return findings;
}
