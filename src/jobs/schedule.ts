import { promoteDue } from '../models/queue.ts';
import type { Store } from '../redis/store.ts';
import { DONE, type JobHandler } from './job_handler.ts';

/** How many jobs one script call promotes: a few milliseconds of Redis. */
const SLICE = 500;

/** The `schedule` job: makes all scheduled jobs that are due instant. */
export function scheduleJob(store: Store): JobHandler {
  return async () => {
    while ((await promoteDue(store, SLICE)).nextDueMs === 0);
    return DONE;
  };
}
