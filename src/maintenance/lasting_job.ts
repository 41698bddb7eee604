import { type JobHandler, triedAgainIn } from '../delivering/settlement.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';

/** Each attempt logs the error, so the job waits before the next one. */
const AFTER_A_FAULT = triedAgainIn(10_000);

/**
 * Returns a handler for a job that is put into the queue only once. After an unexpected error the job runs again, until
 * it succeeds, because no tick would put it again.
 */
export function lastingJob(handler: JobHandler, log: Log): JobHandler {
  return (grant, signal) =>
    handler(grant, signal).catch((error: unknown) => {
      if (error instanceof StorageFull || error instanceof StorageUnavailable) throw error;
      log.error(
        { err: error, job: grant.job },
        'a job failed; nothing is lost, and it runs again in ten seconds',
      );
      return AFTER_A_FAULT;
    });
}
