import type { Log } from '../log.ts';
import { scrub } from '../models/queue.ts';
import type { Store } from '../redis/store.ts';
import type { Recorder } from '../services/metrics/recorder.ts';
import { DONE, type JobHandler } from './job_handler.ts';

/** The `scrub` job: gives back the jobs of workers that died, and forgets the workers. */
export function scrubJob(store: Store, leaseMs: number, recorder: Recorder, log: Log): JobHandler {
  return async () => {
    const { workers, jobs } = await scrub(store, leaseMs);
    if (workers > 0 || jobs.main > 0 || jobs.aux > 0)
      log.warn({ workers, jobs }, 'scrubbed workers that died');
    recorder.scrubbed({ ...jobs, workers });
    return DONE;
  };
}
