import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { type MemoryLimits, readMemories, SETTLED_MS } from '../store/memory.ts';
import type { Partitions } from '../store/partitions.ts';

/** Time for which a measurement of Redis's memory is used. A burst may exceed the high mark for this long. */
const FRESH_MS = 250;

/**
 * Refuses publishes while Redis stores more than the high mark, once it has done so for a second
 * (`SETTLED_MS`). Redis is asked only while requests arrive. A request waits for a new measurement only if
 * the last one would refuse it.
 */
export class StorageGuard {
  readonly #partitions: Partitions;
  readonly #limits: MemoryLimits;
  readonly #onFull: () => void;
  readonly #nowMs: () => number;
  #full = false;
  #shortSinceMs = Number.POSITIVE_INFINITY;
  #maxBytes = 0;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  /** `onFull` is called when memory is above the high mark. The caller must free memory if that lasts. */
  constructor(partitions: Partitions, limits: MemoryLimits, onFull: () => void, nowMs = clock.monotonicMs) {
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

  /** Call this before storing anything, and await the result. Throws StorageFull, at once or later. */
  check(): Promise<void> | undefined {
    if (this.#isFresh) return this.#decide();
    this.#looking ??= this.#look();
    return this.#full ? this.#looking.then(() => this.#decide()) : undefined;
  }

  get #isFresh(): boolean {
    return this.#nowMs() - this.#lookedAtMs < FRESH_MS;
  }

  #decide(): undefined {
    if (this.#full) throw new StorageFull();
  }

  async #look(): Promise<void> {
    try {
      const memories = await readMemories(this.#partitions, this.#limits);
      this.#maxBytes = Math.min(...memories.map(({ max }) => max));
      this.#note(memories.some(({ used, highMark }) => used > highMark));
    } catch {
      // Ignored, because the publish itself will report that Redis is away.
      this.#note(false);
    }
    this.#looking = undefined;
  }

  #note(isShort: boolean): void {
    this.#lookedAtMs = this.#nowMs();
    this.#shortSinceMs = isShort ? Math.min(this.#shortSinceMs, this.#lookedAtMs) : Number.POSITIVE_INFINITY;
    this.#full = this.#lookedAtMs - this.#shortSinceMs >= SETTLED_MS;
    if (isShort) this.#onFull();
  }
}
