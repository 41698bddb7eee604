import { promoteDue } from '../models/queue.ts';
import type { Store } from '../redis/store.ts';
import { DONE, type JobHandler } from './job_handler.ts';

/** The `schedule` job: makes all scheduled jobs that are due instant. */
export function scheduleJob(store: Store): JobHandler {
  return async () => {
    while ((await promoteDue(store)).nextDueMs === 0);
    return DONE;
  };
}
