import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { RateLimit } from '../publishing/rate_limit.ts';
import { StorageGuard } from '../publishing/storage_guard.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Flushing } from '../subscribing/topic_marks.ts';
import { DueEvents } from './delayed/due_events.ts';
import { joinExpiry } from './joins/join_expiry.ts';
import { DueTriggers } from './triggers/due_triggers.ts';

/**
 * The kinds of work, besides jobs, that have a due time: publish a delayed event, fire a trigger, expire a key of a
 * join. The main thread of a worker process does this work.
 */
export const AGENDA = ['delayed', 'triggers', 'joins'] as const;
export type AgendaKind = (typeof AGENDA)[number];

interface AgendaParts {
  config: Config;
  partition: Partition;
  partitions: Partitions;
  /**
   * The same partitions as `partitions`, for calls whose effect must survive a failover. Each call waits until
   * ROUTEMASTER_MIN_REPLICAS replicas have its writes.
   */
  confirmed: Partitions;
  recorder: Recorder;
  publicNames: PublicNames;
  outbox: Flushing;
  log: Log;
  /** Called while Redis is short of memory. The function must free some memory if the shortage lasts. */
  onFull: () => void;
}

/**
 * Returns the functions with which the scheduler of a partition publishes what is due: `delayed` publishes delayed
 * events, `joins` expires join keys, and `triggers` fires triggers.
 */
export function agendaOf({ config, partitions, outbox, onFull, ...parts }: AgendaParts) {
  const guard = new StorageGuard(partitions, config, onFull);
  const dueEvents = new DueEvents({ ...parts, limits: config, onFull });
  const { control } = partitions;
  const ratesElsewhere = parts.partition === control ? undefined : RateLimit.of(control, config);
  const dueTriggers = new DueTriggers({
    ...parts,
    partitions,
    guard,
    limits: config,
    ratesElsewhere,
    onFull,
  });
  return {
    delayed: (signal) => dueEvents.publish(signal),
    joins: joinExpiry({ ...parts, partitions, outbox, guard, settings: config }),
    triggers: () => dueTriggers.publish(),
  } satisfies Record<AgendaKind, (signal: AbortSignal) => Promise<void>>;
}
