import { withoutToken } from '../delivering/dead_letters/bulks.ts';
import { type JobHandler, triedAgainIn } from '../delivering/settlement.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';

/** A job that failed waits this long before its next attempt, because each failure writes a line to the log. */
const AFTER_A_FAULT = triedAgainIn(10_000);

/**
 * Returns a handler for a job that is queued only once, not at intervals. After an unexpected error the job runs again,
 * until it succeeds, because nothing else would queue it again.
 */
export function lastingJob(handler: JobHandler, log: Log): JobHandler {
  return (grant, signal) =>
    handler(grant, signal).catch((error: unknown) => {
      if (error instanceof StorageFull || error instanceof StorageUnavailable) throw error;
      log.error(
        { err: error, job: withoutToken(grant.job) },
        'a job failed; nothing is lost, and it runs again in ten seconds',
      );
      return AFTER_A_FAULT;
    });
}
