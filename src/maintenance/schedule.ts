import { DONE, type JobHandler } from '../delivering/job_handler.ts';
import { promoteDue } from '../delivering/queue.ts';
import type { Store } from '../store/store.ts';

/** The `schedule` job: makes all scheduled jobs that are due instant. */
export function scheduleJob(store: Store): JobHandler {
  return async () => {
    while ((await promoteDue(store)).nextDueMs === 0);
    return DONE;
  };
}
