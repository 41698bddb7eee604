import { StorageFull } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Copies } from './copies.ts';
import type { Publication, PublishLimits, PublishRecorder } from './publication.ts';

/**
 * Maximum events that one script call stores. A longer publication is stored alone. Storing 2,000 events blocks Redis
 * for a few ms.
 */
const MAX_EVENTS_PER_CALL = 2000;
/** Number of bytes of events that Redis stores in the time for one short event. */
export const BYTES_PER_EVENT = 1000;

/** The objects and limits with which Publisher and Delaying store publications. */
export interface PublishingParts<Limits = PublishLimits> {
  partitions: Partitions;
  copies: Copies;
  recorder: PublishRecorder;
  limits: Limits;
  /** Called if Redis is out of memory, so that memory is freed at once. */
  onFull: () => void;
  /** Called with the events of each accepted publication, except the delayed events. Not called if all are delayed. */
  onAccepted: (publication: Publication) => void;
}

/**
 * Returns a function that stores a publication and resolves with its result. One script call stores several
 * publications.
 *
 * - `store` sends publications to a partition, and resolves with one result for each, in the same order.
 * - `weigh` returns about how long Redis takes to store a publication. The unit is the time for one short event.
 * - `maxPauseMs` is the maximum pause between two calls (see CallLimit).
 */
export function groupCommit<Item extends Pick<Publication, 'topic' | 'client'>, Result>(
  { partitions, onFull }: Pick<PublishingParts, 'partitions' | 'onFull'>,
  store: (partition: Partition, group: readonly Item[]) => Promise<Result[]>,
  weigh: (publication: Item) => number,
  maxPauseMs = 0,
): (publication: Item) => Promise<Result> {
  const limit = {
    max: MAX_EVENTS_PER_CALL,
    weigh,
    maxPauseMs,
    ownerOf: ({ client }: Item) => client,
    totalWaiting: { items: 0 },
  };
  const storeGroup = async (partition: Partition, group: readonly Item[]) => {
    try {
      return await store(partition, group);
    } catch (error) {
      if (error instanceof StorageFull) onFull();
      throw error;
    }
  };
  const batcherOf = (partition: Partition) =>
    new Batcher<Item, Result>((group) => storeGroup(partition, group), limit);
  const batchers = new Map(partitions.all.map((partition) => [partition, batcherOf(partition)]));
  return (publication) =>
    (batchers.get(partitions.ofTopic(publication.topic)) as Batcher<Item, Result>).add(publication);
}
