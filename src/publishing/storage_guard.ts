import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';

/** How long a look at Redis's memory is used. A burst may exceed the high mark for this long. */
const FRESH_MS = 250;

/**
 * Refuses to fill Redis further while its memory is beyond the high mark. Asks Redis only while requests come, and only those wait
 * for the answer that an old answer would refuse.
 */
export class StorageGuard {
  readonly #store: Partition;
  readonly #limits: MemoryLimits;
  readonly #onFull: () => void;
  readonly #nowMs: () => number;
  #full = false;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  /** `onFull` is called whenever a look finds the storage full: memory must be freed at once. */
  constructor(store: Partition, limits: MemoryLimits, onFull: () => void, nowMs = clock.monotonicMs) {
    this.#store = store;
    this.#limits = limits;
    this.#onFull = onFull;
    this.#nowMs = nowMs;
  }

  /** To be awaited before anything is stored. Throws StorageFull, at once or later. */
  check(): Promise<void> | undefined {
    if (this.#nowMs() - this.#lookedAtMs < FRESH_MS) return this.#decide();
    this.#looking ??= this.#look();
    return this.#full ? this.#looking.then(() => this.#decide()) : undefined;
  }

  #decide(): undefined {
    if (this.#full) throw new StorageFull();
  }

  async #look(): Promise<void> {
    try {
      const { used, highMark } = await readMemory(this.#store, this.#limits);
      this.#full = used > highMark;
    } catch {
      // Ignored: the publish itself will report that Redis is away.
      this.#full = false;
    }
    this.#lookedAtMs = this.#nowMs();
    this.#looking = undefined;
    if (this.#full) this.#onFull();
  }
}
