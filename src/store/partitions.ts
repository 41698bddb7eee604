import type { Commands } from './partition.ts';
import { Partition, type PartitionOptions } from './partition.ts';

/**
 * Chooses the partition for each key. There is one today, so all choices are the same; nothing outside
 * `src/store/` may assume that.
 */
export class Partitions {
  /** The partition of clients, nonces, limits and figures. */
  readonly control: Partition;
  readonly all: readonly Partition[];

  constructor(only: Partition) {
    this.control = only;
    this.all = [only];
  }

  /** The partitions of a Redis. */
  static on(redis: Commands, options: PartitionOptions): Partitions {
    return new Partitions(new Partition(redis, options));
  }

  /** The partition of a subscriber, with its queue, its dead letters and its drop notices. */
  ofSubscriber(_token: string): Partition {
    return this.control;
  }

  /** Where to look for what one subscriber has, or for what all have if `token` is undefined. */
  holding(token: string | undefined): readonly Partition[] {
    return token === undefined ? this.all : [this.ofSubscriber(token)];
  }

  /** The partition of a topic, with its owner, its counter and the idempotency keys of its publications. */
  ofTopic(_name: string): Partition {
    return this.control;
  }
}
