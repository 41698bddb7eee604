import { clock } from '../clock.ts';
import type { Grant } from '../delivering/grant.ts';
import { DONE, GIVEN_BACK, type Settlement, triedAgainIn } from '../delivering/settlement.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Outbox } from '../publishing/outbox.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Time after which the job gives way to other jobs of its queue, even if entries are left. */
const TURN_MS = 500;
/**
 * The pause after an error of the bus itself. Such an error may last, and each attempt logs it. The entries must not
 * be dropped.
 */
const AFTER_A_FAULT = triedAgainIn(10_000);

interface OutboxJobParts {
  partition: Partition;
  partitions: Partitions;
  outbox: Outbox;
  leaseMs: number;
  log: Log;
  /** Called with the other partition if its Redis has no memory for what is in the outbox. */
  onFull: (partition: Partition) => void;
}

/**
 * The job `outbox`: moves the entries that its partition has for another partition. Its argument is that partition's
 * index.
 */
export function outboxJob({ partition, partitions, outbox, leaseMs, onFull, log }: OutboxJobParts) {
  return async ({ job, worker, lease }: Grant, signal: AbortSignal): Promise<Settlement> => {
    const to = partitions.all[Number(job?.args[0])];
    if (!to || to === partition) return DONE;
    const endMs = clock.monotonicMs() + TURN_MS;
    const isOver = () => signal.aborted || clock.monotonicMs() >= endMs;
    try {
      const end = await outbox.empty(partition, to, { worker, lease, leaseMs }, isOver);
      return end === 'left' ? GIVEN_BACK : { end: 'settled', held: end === 'ended' };
    } catch (error) {
      if (error instanceof StorageFull) onFull(to);
      if (error instanceof StorageFull || error instanceof StorageUnavailable) throw error;
      log.error(
        { err: error, partition: to.index },
        'an outbox cannot be moved; its entries stay until it can',
      );
      return AFTER_A_FAULT;
    }
  };
}
