import { clock } from '../clock.ts';
import type { Grant } from '../delivering/grant.ts';
import { DONE, GIVEN_BACK, type Settlement } from '../delivering/settlement.ts';
import { StorageFull } from '../errors.ts';
import type { Outbox } from '../publishing/outbox.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Time after which the job gives way to other jobs of its queue, even if entries are left. */
const TURN_MS = 500;

interface OutboxJobParts {
  partition: Partition;
  partitions: Partitions;
  outbox: Outbox;
  leaseMs: number;
  /** Called with the other partition if its Redis has no memory for what is in the outbox. */
  onFull: (partition: Partition) => void;
}

/**
 * The job `outbox`: moves the entries that its partition has for another partition. Its argument is that partition's
 * index.
 */
export function outboxJob({ partition, partitions, outbox, leaseMs, onFull }: OutboxJobParts) {
  return async ({ job, worker, lease }: Grant, signal: AbortSignal): Promise<Settlement> => {
    const to = partitions.all[Number(job?.args[0])];
    if (!to || to === partition) return DONE;
    const endMs = clock.monotonicMs() + TURN_MS;
    const isOver = () => signal.aborted || clock.monotonicMs() >= endMs;
    const end = await outbox.empty(partition, to, { worker, lease, leaseMs }, isOver).catch((error) => {
      if (error instanceof StorageFull) onFull(to);
      throw error;
    });
    return end === 'left' ? GIVEN_BACK : { end: 'settled', held: end === 'ended' };
  };
}
