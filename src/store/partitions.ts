import { type Commands, Partition, type PartitionOptions } from './partition.ts';

/**
 * Chooses the partition for each key. There is one today, so all choices are the same; nothing outside
 * `src/store/` may assume that.
 */
export class Partitions {
  /** The partition of clients, nonces, limits and figures. */
  readonly control: Partition;
  /** Every partition once, for listings and for whatever each partition has of its own. */
  readonly all: readonly Partition[];

  constructor(only: Partition) {
    this.control = only;
    this.all = [only];
  }

  /** Makes the partitions that the Redis behind a connection holds. */
  static on(redis: Commands, options: PartitionOptions): Partitions {
    return new Partitions(new Partition(redis, options));
  }

  /** The partition of a subscriber, with its queue, its dead letters and its drop notices. */
  ofSubscriber(_token: string): Partition {
    return this.control;
  }

  /** The partition of a subscriber; all partitions if `token` is undefined, which stands for any subscriber. */
  holding(token: string | undefined): readonly Partition[] {
    return token === undefined ? this.all : [this.ofSubscriber(token)];
  }

  /** The partition of a topic, with its owner, its counter and the idempotency keys of its publications. */
  ofTopic(_name: string): Partition {
    return this.control;
  }
}
