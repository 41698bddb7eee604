import { scrub } from '../delivering/queue.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partition } from '../store/partition.ts';

/** The `scrub` job: gives back the jobs of dead workers and forgets these workers. */
export function scrubJob(
  store: Partition,
  leaseMs: number,
  recorder: Recorder,
  log: Log,
): () => Promise<void> {
  return async () => {
    const { workers, jobs } = await scrub(store, leaseMs);
    if (workers > 0 || jobs.main > 0 || jobs.aux > 0) log.warn({ workers, jobs }, 'scrubbed dead workers');
    recorder.scrubbed({ ...jobs, workers });
  };
}
