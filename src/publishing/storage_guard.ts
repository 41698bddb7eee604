import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { type MemoryLimits, readMemory, SETTLED_MS } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Time for which a measurement of Redis's memory is used. A burst may exceed the high mark for this long. */
const FRESH_MS = 250;

/**
 * Refuses publishes while Redis stores more than the high mark, once it has done so for a second
 * (`SETTLED_MS`). Redis is asked only while requests arrive. A request waits for a new measurement only if
 * the last one would refuse it. With several Redises, only publishes to the partitions of a full Redis are refused.
 */
export class StorageGuard {
  readonly #partitions: Partitions;
  readonly #limits: MemoryLimits;
  readonly #onFull: (short: readonly Partition[]) => void;
  readonly #nowMs: () => number;
  /** By index of the partition, the time since which its Redis is above the high mark. Has only such partitions. */
  readonly #shortSinceMs = new Map<number, number>();
  #maxBytes = 0;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  /**
   * `onFull` is called with the partitions whose Redis is above the high mark, at each measurement that finds some. It
   * must free memory if that lasts.
   */
  constructor(
    partitions: Partitions,
    limits: MemoryLimits,
    onFull: (short: readonly Partition[]) => void,
    nowMs = clock.monotonicMs,
  ) {
    this.#partitions = partitions;
    this.#limits = limits;
    this.#onFull = onFull;
    this.#nowMs = nowMs;
  }

  /**
   * Returns the memory limit of the smallest Redis at the last measurement; 0 if it has none, or was not
   * measured yet. Starts a new measurement if the last one is old.
   */
  get maxBytes(): number {
    if (!this.#isFresh) this.#looking ??= this.#look();
    return this.#maxBytes;
  }

  /**
   * Call this before storing anything in a partition, and await the result. Throws StorageFull, at once or later.
   * Without `partition`, throws if the Redis of any partition is full.
   */
  check(partition?: Partition): Promise<void> | undefined {
    if (this.#isFresh) return this.#decide(partition);
    this.#looking ??= this.#look();
    return this.#isFull(partition) ? this.#looking.then(() => this.#decide(partition)) : undefined;
  }

  /** Does what `check` does, for the partition of a topic. */
  checkTopic(name: string): Promise<void> | undefined {
    return this.check(this.#partitions.ofTopic(name));
  }

  get #isFresh(): boolean {
    return this.#nowMs() - this.#lookedAtMs < FRESH_MS;
  }

  #decide(partition?: Partition): undefined {
    if (this.#isFull(partition)) throw new StorageFull();
  }

  #isFull(partition?: Partition): boolean {
    const places = partition ? [partition.index] : [...this.#shortSinceMs.keys()];
    return places.some((place) => {
      const sinceMs = this.#shortSinceMs.get(place) ?? Number.POSITIVE_INFINITY;
      return this.#lookedAtMs - sinceMs >= SETTLED_MS;
    });
  }

  async #look(): Promise<void> {
    const redises = await Promise.all(this.#partitions.byRedis().map((its) => this.#measure(its)));
    const measured = redises.flat();
    if (measured.length > 0) this.#maxBytes = Math.min(...measured.map(({ memory }) => memory.max));
    const short = measured.filter(({ memory }) => memory.used > memory.highMark);
    this.#note(short.flatMap(({ partitions }) => partitions));
    this.#looking = undefined;
  }

  /**
   * Resolves with a list of one measurement, of the Redis that has these partitions. The list is empty if that Redis
   * cannot be reached: the publish itself will then fail and say so.
   */
  async #measure(partitions: [Partition, ...Partition[]]) {
    const memory = await readMemory(partitions[0], this.#limits).catch(() => undefined);
    return memory ? [{ partitions, memory }] : [];
  }

  #note(short: readonly Partition[]): void {
    this.#lookedAtMs = this.#nowMs();
    const before = new Map(this.#shortSinceMs);
    this.#shortSinceMs.clear();
    for (const { index } of short) this.#shortSinceMs.set(index, before.get(index) ?? this.#lookedAtMs);
    if (short.length > 0) this.#onFull(short);
  }
}
