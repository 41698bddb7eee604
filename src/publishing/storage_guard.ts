import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { LASTING_SHORTAGE_MS, type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/**
 * Time for which a measurement of Redis's memory is used. During this time, a burst of publishes may make Redis store
 * more than the bus permits.
 */
const FRESH_MS = 250;
/**
 * If two measurements find Redis above its high mark, but are further apart than this, Redis may have been below the
 * mark in between: the first one may have counted a buffer that was soon freed. So the shortage counts as beginning
 * with the second measurement.
 */
const MAX_GAP_MS = 60_000;

/** What the guard knows of the Redis of a partition. */
interface Measurement {
  /** When the Redis was last measured (ms). */
  atMs: number;
  /**
   * Since when (ms) all measurements have found the Redis above its high mark, and were at most MAX_GAP_MS apart.
   * Infinity if the last measurement has not found it above the mark.
   */
  aboveMarkSinceMs: number;
  /**
   * `maxBytes` is the memory limit of the Redis. `maxBytesOfPartition` is this limit divided by the number of
   * partitions in the Redis. Both are undefined until the Redis has answered once.
   */
  maxBytes: number | undefined;
  maxBytesOfPartition: number | undefined;
}

/**
 * Refuses to store anything in a partition whose Redis has been above its high mark (the most data that the bus
 * permits) for LASTING_SHORTAGE_MS (about a second). Before it refuses anything, the guard measures again if the last
 * measurement is older than FRESH_MS.
 */
export class StorageGuard {
  readonly #partitions: Partitions;
  readonly #limits: MemoryLimits;
  readonly #onFull: (aboveMark: readonly Partition[]) => void;
  /** By index of the partition. */
  readonly #measurements = new Map<number, Measurement>();
  /**
   * By index of the partition: the measurement of its Redis that is under way. Each Redis is measured separately, so
   * that a Redis that hangs for seconds does not delay the others.
   */
  readonly #measuring = new Map<number, Promise<void>>();
  /** When the oldest measurement was made (ms); -Infinity until each Redis has one. */
  #oldestAtMs = Number.NEGATIVE_INFINITY;
  #maxBytes = 0;
  #maxBytesOfPartition = 0;

  /**
   * `onFull` is called after each measurement that finds a Redis above its high mark. It gets the partitions of this
   * Redis, and must free memory if the shortage lasts.
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
    this.#measureAll();
    return this.#maxBytes;
  }

  /**
   * The lowest memory limit of a partition (bytes): the limit of its Redis, divided by the number of partitions there.
   * It is 0 when `maxBytes` is 0. A client's quota in each partition is a fraction of this limit. So a client's quotas
   * in all partitions of one Redis add up to at most the same fraction of the limit of this Redis.
   */
  get maxBytesOfPartition(): number {
    this.#measureAll();
    return this.#maxBytesOfPartition;
  }

  /**
   * Throws StorageFull if the partition's Redis is too full. If Redis must be measured first, returns a promise, which
   * rejects with StorageFull or resolves. Await the result before storing anything in the partition.
   */
  check(partition: Partition): Promise<void> | undefined {
    if (this.#isFresh(partition)) return this.#decide(partition);
    this.#measureAll();
    if (!this.#isFull(partition)) return undefined;
    return this.#measuring.get(partition.index)?.then(() => this.#decide(partition));
  }

  checkTopic(name: string): Promise<void> | undefined {
    return this.check(this.#partitions.ofTopic(name));
  }

  checkSubscriber(token: string): Promise<void> | undefined {
    return this.check(this.#partitions.ofSubscriber(token));
  }

  #isFresh({ index }: Partition): boolean {
    const measurement = this.#measurements.get(index);
    return measurement !== undefined && isFresh(measurement.atMs);
  }

  #decide(partition: Partition): undefined {
    if (this.#isFull(partition)) throw new StorageFull(undefined, partition.master.address);
  }

  #isFull({ index }: Partition): boolean {
    const measurement = this.#measurements.get(index);
    return (
      measurement !== undefined && measurement.atMs - measurement.aboveMarkSinceMs >= LASTING_SHORTAGE_MS
    );
  }

  /** Begins to measure each Redis whose last measurement is old. Skips a Redis that is being measured already. */
  #measureAll(): void {
    if (isFresh(this.#oldestAtMs)) return;
    for (const its of this.#partitions.byRedis()) {
      if (its.every((each) => this.#isFresh(each) || this.#measuring.has(each.index))) continue;
      const measuring = this.#measure(its).finally(() => {
        for (const { index } of its) this.#measuring.delete(index);
      });
      for (const { index } of its) this.#measuring.set(index, measuring);
    }
  }

  /**
   * Measures the memory of the Redis that these partitions share. A Redis that is away does not count as full, because
   * storing anything in it throws StorageUnavailable anyway.
   */
  async #measure(partitions: [Partition, ...Partition[]]): Promise<void> {
    const memory = await readMemory(partitions[0], this.#limits).catch(() => undefined);
    const isAboveMark = memory !== undefined && memory.used > memory.highMark;
    for (const { index } of partitions) this.#note(index, isAboveMark, memory, partitions.length);
    const known = [...this.#measurements.values()];
    if (known.length === this.#partitions.all.length)
      this.#oldestAtMs = Math.min(...known.map(({ atMs }) => atMs));
    this.#maxBytes = least(known.map(({ maxBytes }) => maxBytes));
    this.#maxBytesOfPartition = least(known.map(({ maxBytesOfPartition }) => maxBytesOfPartition));
    if (isAboveMark) this.#onFull(partitions);
  }

  #note(index: number, isAboveMark: boolean, memory: Memory | undefined, partitions: number): void {
    const nowMs = clock.monotonicMs();
    const before = this.#measurements.get(index);
    const beganMs = before && nowMs - before.atMs <= MAX_GAP_MS ? before.aboveMarkSinceMs : nowMs;
    this.#measurements.set(index, {
      atMs: nowMs,
      aboveMarkSinceMs: isAboveMark ? Math.min(beganMs, nowMs) : Number.POSITIVE_INFINITY,
      maxBytes: memory?.max ?? before?.maxBytes,
      maxBytesOfPartition: memory ? memory.max / partitions : before?.maxBytesOfPartition,
    });
  }
}

function isFresh(measuredAtMs: number): boolean {
  return clock.monotonicMs() - measuredAtMs < FRESH_MS;
}

/** Returns the lowest of the known limits; 0 if none is known. */
function least(limits: readonly (number | undefined)[]): number {
  const known = limits.filter((each) => each !== undefined);
  return known.length > 0 ? Math.min(...known) : 0;
}
