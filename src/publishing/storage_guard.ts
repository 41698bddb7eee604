import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { sharing } from '../sharing.ts';
import { LASTING_SHORTAGE_MS, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/**
 * Time for which a measurement of Redis's memory is used. During this time, a burst of publishes may make Redis store
 * more than the bus permits.
 */
const FRESH_MS = 250;
/**
 * If two measurements find Redis above its high mark, but are further apart than this, Redis may have been below the
 * mark in between: the first may have seen a buffer. So the shortage counts as beginning with the second.
 */
const MAX_GAP_MS = 60_000;

/**
 * Refuses to store anything in a partition whose Redis has been above its high mark (the most data that the bus
 * permits) for LASTING_SHORTAGE_MS (about a second). Before it refuses anything, the guard measures again if the last
 * measurement is older than FRESH_MS.
 */
export class StorageGuard {
  readonly #partitions: Partitions;
  readonly #limits: MemoryLimits;
  readonly #onFull: (aboveMark: readonly Partition[]) => void;
  /**
   * By index of the partition: since when (ms) all measurements have found the partition's Redis above its high mark,
   * and were at most MAX_GAP_MS apart. A partition has no entry if the last measurement found its Redis below the mark.
   */
  readonly #aboveMarkSinceMs = new Map<number, number>();
  #maxBytes = 0;
  #maxBytesOfPartition = 0;
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  readonly #sharedMeasuring = sharing(() => this.#measureAll());

  /**
   * `onFull` is called after each measurement that finds a Redis above its high mark. It gets the partitions of all
   * such Redises, and must free memory if the shortage lasts.
   */
  constructor(
    partitions: Partitions,
    limits: MemoryLimits,
    onFull: (aboveMark: readonly Partition[]) => void,
  ) {
    this.#partitions = partitions;
    this.#limits = limits;
    this.#onFull = onFull;
  }

  /**
   * The lowest memory limit (bytes) of the bus's Redises, as last measured. It is 0 if one of them has no limit, or if
   * nothing has been measured yet. If the last measurement is old, reading this property begins a new one.
   */
  get maxBytes(): number {
    if (!this.#isFresh) void this.#sharedMeasuring();
    return this.#maxBytes;
  }

  /**
   * The lowest memory limit of a partition (bytes): the limit of its Redis, divided by the number of partitions there.
   * It is 0 when `maxBytes` is 0. A client's quota in each partition is a fraction of this limit. So a client's quotas
   * in all partitions of one Redis add up to at most the same fraction of the limit of this Redis.
   */
  get maxBytesOfPartition(): number {
    if (!this.#isFresh) void this.#sharedMeasuring();
    return this.#maxBytesOfPartition;
  }

  /**
   * Throws StorageFull if the partition's Redis is too full. If Redis must be measured first, returns a promise, which
   * rejects with StorageFull or resolves. Await the result before storing anything in the partition.
   */
  check(partition: Partition): Promise<void> | undefined {
    if (this.#isFresh) return this.#decide(partition);
    const measuring = this.#sharedMeasuring();
    return this.#isFull(partition) ? measuring.then(() => this.#decide(partition)) : undefined;
  }

  checkTopic(name: string): Promise<void> | undefined {
    return this.check(this.#partitions.ofTopic(name));
  }

  checkSubscriber(token: string): Promise<void> | undefined {
    return this.check(this.#partitions.ofSubscriber(token));
  }

  get #isFresh(): boolean {
    return clock.monotonicMs() - this.#measuredAtMs < FRESH_MS;
  }

  #decide(partition: Partition): undefined {
    if (this.#isFull(partition)) throw new StorageFull(undefined, partition.master.address);
  }

  #isFull({ index }: Partition): boolean {
    const sinceMs = this.#aboveMarkSinceMs.get(index) ?? Number.POSITIVE_INFINITY;
    return this.#measuredAtMs - sinceMs >= LASTING_SHORTAGE_MS;
  }

  async #measureAll(): Promise<void> {
    const redises = await Promise.all(this.#partitions.byRedis().map((its) => this.#measure(its)));
    const measured = redises.flat();
    if (measured.length > 0) {
      this.#maxBytes = Math.min(...measured.map(({ memory }) => memory.max));
      const parts = measured.map(({ memory, partitions }) => memory.max / partitions.length);
      this.#maxBytesOfPartition = Math.min(...parts);
    }
    const aboveMark = measured.filter(({ memory }) => memory.used > memory.highMark);
    this.#note(aboveMark.flatMap(({ partitions }) => partitions));
  }

  /**
   * Measures the memory of the Redis that these partitions share. Resolves with a list of one measurement, or with an
   * empty list if Redis is away. A Redis that is away does not count as full, because storing anything in it throws
   * StorageUnavailable anyway.
   */
  async #measure(partitions: [Partition, ...Partition[]]) {
    const memory = await readMemory(partitions[0], this.#limits).catch(() => undefined);
    return memory ? [{ partitions, memory }] : [];
  }

  #note(aboveMark: readonly Partition[]): void {
    const nowMs = clock.monotonicMs();
    const before = new Map(nowMs - this.#measuredAtMs <= MAX_GAP_MS ? this.#aboveMarkSinceMs : []);
    this.#measuredAtMs = nowMs;
    this.#aboveMarkSinceMs.clear();
    for (const { index } of aboveMark) this.#aboveMarkSinceMs.set(index, before.get(index) ?? nowMs);
    if (aboveMark.length > 0) this.#onFull(aboveMark);
  }
}
