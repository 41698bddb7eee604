import { type Commands, Partition, type PartitionOptions } from './partition.ts';

/**
 * Chooses the partition for each key. Today there is only one partition, but nothing outside `src/store/` may
 * rely on that.
 */
export class Partitions {
  /** The partition of clients, nonces, failed logins, rates and counters. */
  readonly control: Partition;
  /** All partitions: for listings, and for what each partition has, such as queues and workers. */
  readonly all: readonly Partition[];

  constructor(only: Partition) {
    this.control = only;
    this.all = [only];
  }

  static on(redis: Commands, options: PartitionOptions): Partitions {
    return new Partitions(new Partition(redis, options));
  }

  /** Returns the partition of a subscriber, which has its batches, its dead letters and its drop notices. */
  ofSubscriber(_token: string): Partition {
    return this.control;
  }

  /** Returns the partition of a subscriber, or all partitions if `token` is undefined. */
  holding(token: string | undefined): readonly Partition[] {
    return token === undefined ? this.all : [this.ofSubscriber(token)];
  }

  /** Returns the partition of a topic, which has its owner, its counter and its idempotency keys. */
  ofTopic(_name: string): Partition {
    return this.control;
  }
}
