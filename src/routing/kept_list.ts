import { clock } from '../clock.ts';

/** How long a list is kept. Reading and sorting 10,000 clients takes 30 ms of CPU in a web process, 14 ms in Redis. */
const LIST_KEPT_MS = 10_000;

interface Source<T> {
  /** Resolves with the present number of entries. A kept list that has another number of entries is outdated. */
  count: () => Promise<number>;
  /** Resolves with all entries, in any order. */
  read: () => Promise<T[]>;
  /** Returns the text by which the list is sorted, such as a name. */
  placeOf: (entry: T) => string;
}

/**
 * A sorted list that this process keeps in memory. It is read again after ten seconds, after `forget`, or if Redis has
 * another number of entries. If another process changes an entry, such as a name, the list can be out of date for ten
 * seconds.
 */
export class KeptList<T> {
  readonly #source: Source<T>;
  #kept: Promise<readonly T[]> | undefined;
  #untilMs = 0;

  constructor(source: Source<T>) {
    this.#source = source;
  }

  /** Resolves with the list. Throws the errors of `read` and `count`. */
  async sorted(): Promise<readonly T[]> {
    const kept = clock.monotonicMs() < this.#untilMs ? this.#kept : undefined;
    if (kept) {
      const [list, count] = await Promise.all([kept, this.#source.count()]);
      if (list.length === count) return list;
      // `kept` is outdated. If another call of `sorted` has already begun to read the list again, `#kept` is the
      // promise of that reading, and this call waits for it too.
      if (this.#kept !== kept && this.#kept) return this.#kept;
    }
    return this.#begin();
  }

  /** Makes the next call of `sorted` read the list again. Call this when this process has changed an entry. */
  forget(): void {
    this.#kept = undefined;
  }

  #begin(): Promise<readonly T[]> {
    const reading = this.#read();
    this.#kept = reading;
    this.#untilMs = clock.monotonicMs() + LIST_KEPT_MS;
    reading.catch(() => this.#kept === reading && this.forget());
    return reading;
  }

  async #read(): Promise<readonly T[]> {
    const { read, placeOf } = this.#source;
    const placed = (await read()).map((entry) => ({ entry, place: placeOf(entry) }));
    placed.sort((one, other) => (one.place < other.place ? -1 : 1));
    return placed.map(({ entry }) => entry);
  }
}
