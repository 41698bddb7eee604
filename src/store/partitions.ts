import { crc32 } from 'node:zlib';
import { StorageUnavailable } from '../errors.ts';
import { ownerOf } from '../ids.ts';
import type { Keyspace } from './keys.ts';
import type { Connection } from './master.ts';
import { type Commands, Partition, type PartitionOptions } from './partition.ts';
import { RedisCluster } from './redis_cluster.ts';
import { hashTags } from './tags.ts';

interface PartitionsOptions extends PartitionOptions {
  partitions?: number;
}

interface Reached<T> {
  found: T[];
  away: Partition[];
}

/** The partitions of the bus. This class tells which partition has a topic or a subscriber. */
export class Partitions {
  /** The partition with the data of the bus as a whole, such as clients, nonces, rates, and the history of the bus. */
  readonly control: Partition;
  readonly all: readonly Partition[];

  constructor(...all: [Partition, ...Partition[]]) {
    this.control = all[0];
    this.all = all;
  }

  /** Makes the partitions of a bus. Keys have a hash tag, except on a single Redis with one partition. */
  static on(redis: Connection, { partitions = 1, prefix = '', ...options }: PartitionsOptions): Partitions {
    const isPlain = partitions === 1 && !(redis instanceof RedisCluster);
    const prefixes = isPlain ? [prefix] : hashTags(partitions).map((tag) => `${prefix}{${tag}}:`);
    const all = prefixes.map(
      (each, index) => new Partition(redis, { ...options, prefix: each, index, hasOthers: partitions > 1 }),
    );
    return new Partitions(...(all as [Partition, ...Partition[]]));
  }

  /**
   * Sends commands to the partitions `among` at the same time. Resolves with their results, in the order of the
   * partitions. Rejects if one fails.
   */
  ask<T>(
    command: (redis: Commands, keys: Keyspace) => Promise<T>,
    among: readonly Partition[] = this.all,
  ): Promise<T[]> {
    return Promise.all(among.map((partition) => partition.command(command)));
  }

  /**
   * Calls `read` for the partitions `among` at the same time. Resolves with the results, in the order of the partitions
   * (`found`), and with the partitions that are away (`away`). Throws StorageUnavailable if all are away, and any other
   * error of `read`.
   */
  async reach<T>(read: (partition: Partition) => Promise<T>, among = this.all): Promise<Reached<T>> {
    const reached: Reached<T> = { found: [], away: [] };
    const outcomes = await Promise.allSettled(among.map(read));
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.status === 'fulfilled') reached.found.push(outcome.value);
      else if (!(outcome.reason instanceof StorageUnavailable)) throw outcome.reason;
      else if (reached.away.push(among[index] as Partition) === among.length) throw outcome.reason;
    }
    return reached;
  }

  /** Returns the partitions, grouped by the Redis that has them. Partitions in the same Redis share its memory. */
  byRedis(): [Partition, ...Partition[]][] {
    const groups = Map.groupBy(this.all, ({ master }) => master.address);
    return [...groups.values()] as [Partition, ...Partition[]][];
  }

  /**
   * Returns the partition that has a subscriber. A join, which is a subscriber too, is in the partition of its client,
   * because scripts check a new join against the client's other joins.
   */
  ofSubscriber(token: string): Partition {
    return this.#of(ownerOf(token));
  }

  /**
   * Returns a list with the one partition that has this subscriber. If `token` is undefined, returns all partitions.
   */
  holding(token: string | undefined): readonly Partition[] {
    return token === undefined ? this.all : [this.ofSubscriber(token)];
  }

  /** Returns the home of a topic: the partition that has its publisher, its counter and its idempotency keys. */
  ofTopic(name: string): Partition {
    return this.#of(name);
  }

  /** Returns the partition of a topic or a subscriber; the control partition if neither is given. */
  ofSubject(subject: { topic?: string | undefined; subscriber?: string | undefined }): Partition {
    const { topic, subscriber } = subject;
    if (topic !== undefined) return this.ofTopic(topic);
    return subscriber === undefined ? this.control : this.ofSubscriber(subscriber);
  }

  #of(name: string): Partition {
    const { all } = this;
    return all.length === 1 ? this.control : (all[crc32(name) % all.length] as Partition);
  }
}

/**
 * Looks for a thing in all `places` at the same time. A place is a partition, or has one. Resolves with the first
 * result of `look` that is not undefined. Does not wait for the other places then, because a master that hangs takes
 * five seconds to fail. If no place has the thing, resolves with undefined. But if a partition is away, throws its
 * StorageUnavailable, because this partition may have the thing. If `look` has also failed with any other error, throws
 * that error instead.
 */
export async function firstFound<P, T>(
  places: readonly P[],
  look: (place: P) => Promise<T | undefined>,
): Promise<T | undefined> {
  const looks = places.map(async (place) => {
    const found = await look(place);
    if (found === undefined) throw NOTHING_FOUND;
    return found;
  });
  try {
    return await Promise.any(looks);
  } catch (error) {
    const failures = (error as AggregateError).errors.filter((each) => each !== NOTHING_FOUND);
    if (failures.length === 0) return undefined;
    throw failures.find((each) => !(each instanceof StorageUnavailable)) ?? failures[0];
  }
}

/** Thrown inside `firstFound` by the look at a place that has nothing. */
const NOTHING_FOUND = new Error('nothing found');
