import { clock } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Store } from '../store/store.ts';

/** How long a look at Redis's memory is good for: what a burst may put beyond the high mark comes within this time. */
const FRESH_MS = 250;

/**
 * Refuses what would fill Redis further while its memory is beyond the high mark. Asks Redis only while somebody comes, and lets
 * nobody wait for the answer but those whom it would have to refuse by an old one.
 */
export class StorageGuard {
  readonly #store: Store;
  readonly #limits: MemoryLimits;
  readonly #onFull: () => void;
  #full = false;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  /** `onFull` is called at every look that finds the storage full: memory is to be freed at once. */
  constructor(store: Store, limits: MemoryLimits, onFull: () => void) {
    this.#store = store;
    this.#limits = limits;
    this.#onFull = onFull;
  }

  /** To be awaited before something is stored. Throws StorageFull, at once or later. */
  check(): Promise<void> | undefined {
    if (clock.monotonicMs() - this.#lookedAtMs < FRESH_MS) return this.#decide();
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
      // Redis is away, which the publication is told by whom it matters to.
      this.#full = false;
    }
    this.#lookedAtMs = clock.monotonicMs();
    this.#looking = undefined;
    if (this.#full) this.#onFull();
  }
}
