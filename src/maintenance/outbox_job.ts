import { DONE, GIVEN_BACK } from '../delivering/settlement.ts';
import { StorageFull } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Outbox } from '../publishing/outbox.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { lastingJob } from './lasting_job.ts';

/**
 * Maximum time for one run of an `outbox` job that serves only one slow partition (see `outboxJob`). Then the job goes
 * back to the queue, so that the worker can run other jobs.
 */
const RUN_MS = 500;

interface OutboxJobParts {
  partition: Partition;
  partitions: Partitions;
  outbox: Outbox;
  leaseMs: number;
  log: Log;
  /** Called with the partition to which entries are moved, if its Redis has no memory for them. */
  onFull: (partition: Partition) => void;
}

/**
 * Returns the handler of the job `outbox`. An entry of an outbox says what is to be done in another partition, and the
 * job moves the entry there. Entries for a slow partition are set aside in a list of their own, so that they do not
 * hold up other entries. Another `outbox` job empties that list; its argument is the slow partition's index in
 * `Partitions.all`.
 */
export function outboxJob({ partition, partitions, outbox, leaseMs, onFull, log }: OutboxJobParts) {
  return lastingJob(async ({ worker, lease, job }, signal) => {
    const [index] = job?.args ?? [];
    const to = partitions.all[Number(index)];
    if (index !== undefined && (!to || to === partition)) return DONE;
    const holder = { worker, lease, leaseMs };
    try {
      const end = to
        ? await outbox.emptyAside(
            partition,
            to.index,
            holder,
            AbortSignal.any([signal, AbortSignal.timeout(RUN_MS)]),
          )
        : await outbox.empty(partition, holder, signal);
      return end === 'left' ? GIVEN_BACK : { end: 'settled', held: end === 'ended' };
    } catch (error) {
      if (to && error instanceof StorageFull) onFull(to);
      throw error;
    }
  }, log);
}
