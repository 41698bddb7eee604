import { clock } from '../clock.ts';

/**
 * Time for which a list is kept before it is read again. Reading and sorting 10,000 clients takes 30 ms of CPU in a web
 * process, and 14 ms in Redis. For 10,000 topics it is 9 ms and 5 ms.
 */
const LIST_KEPT_MS = 10_000;

interface Source<T> {
  /** Resolves with the present number of entries in Redis. If the kept list has another length, it is outdated. */
  count: () => Promise<number>;
  /** Resolves with all entries, in any order. */
  read: () => Promise<T[]>;
  /** Returns the text by which the list is sorted, such as the name of the entry. */
  placeOf: (entry: T) => string;
}

/**
 * A sorted list that is kept in this process. It is read again after ten seconds, after `forget`, or if Redis has
 * another number of entries. So a caller gets an outdated list only if another process has added as many entries as it
 * has removed.
 */
export class KeptList<T> {
  readonly #source: Source<T>;
  #kept: Promise<readonly T[]> | undefined;
  #untilMs = 0;

  constructor(source: Source<T>) {
    this.#source = source;
  }

  /** Resolves with the list. Throws the errors of the functions `read` and `count` in `source`. */
  async sorted(): Promise<readonly T[]> {
    const kept = clock.monotonicMs() < this.#untilMs ? this.#kept : undefined;
    if (kept) {
      const [list, count] = await Promise.all([kept, this.#source.count()]);
      if (list.length === count) return list;
      // If another call has begun to read the list again meanwhile, its list is used here too.
      if (this.#kept !== kept && this.#kept) return this.#kept;
    }
    return this.#begin();
  }

  /** Makes the next call read the list again, since this process has changed it. */
  forget(): void {
    this.#kept = undefined;
    this.#untilMs = 0;
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
