import { crc32 } from 'node:zlib';
import { ownerOf } from '../join_token.ts';
import type { Connection } from './master.ts';
import { Partition, type PartitionOptions } from './partition.ts';
import { RedisCluster } from './redis_cluster.ts';
import { hashTags } from './tags.ts';

interface PartitionsOptions extends PartitionOptions {
  /** Number of partitions; 1 by default. */
  partitions?: number;
}

/** Chooses the partition for each key. Nothing outside `src/store/` may rely on there being only one. */
export class Partitions {
  /** The partition of clients, nonces, failed logins, rates, and the history. */
  readonly control: Partition;
  /** All partitions: for listings, and for what each partition has, such as queues and workers. */
  readonly all: readonly Partition[];

  constructor(...all: [Partition, ...Partition[]]) {
    this.control = all[0];
    this.all = all;
  }

  /**
   * With one partition on one Redis the keys have the prefix alone; with several, or on a cluster, also the hash tag of
   * their partition.
   */
  static on(redis: Connection, { partitions = 1, prefix = '', ...options }: PartitionsOptions): Partitions {
    const isPlain = partitions === 1 && !(redis instanceof RedisCluster);
    const prefixes = isPlain ? [prefix] : hashTags(partitions).map((tag) => `${prefix}{${tag}}:`);
    const all = prefixes.map((each, index) => new Partition(redis, { ...options, prefix: each, index }));
    return new Partitions(...(all as [Partition, ...Partition[]]));
  }

  /** Returns the partitions that each Redis has, for what a Redis has once, such as its memory. */
  byRedis(): [Partition, ...Partition[]][] {
    const groups = Map.groupBy(this.all, ({ master }) => master.address);
    return [...groups.values()] as [Partition, ...Partition[]][];
  }

  /**
   * Returns the partition of a subscriber, which has its batches, its dead letters and its drop notices. All joins of a
   * client are in one partition, because scripts compare them.
   */
  ofSubscriber(token: string): Partition {
    return this.#of(ownerOf(token));
  }

  /** Returns the partition of a subscriber, or all partitions if `token` is undefined. */
  holding(token: string | undefined): readonly Partition[] {
    return token === undefined ? this.all : [this.ofSubscriber(token)];
  }

  /** Returns the home of a topic: the partition of its owner, its counter and its idempotency keys. */
  ofTopic(name: string): Partition {
    return this.#of(name);
  }

  #of(name: string): Partition {
    const { all } = this;
    return all.length === 1 ? this.control : (all[crc32(name) % all.length] as Partition);
  }
}
