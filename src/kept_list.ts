import { clock } from './clock.ts';

/** Time for which a list is kept. To read and sort 10,000 clients takes web 30 ms of CPU and Redis 14; topics take 9 and 5. */
const KEPT_MS = 10_000;

interface Source<T> {
  /** Resolves with the number of entries that the list should have. */
  count: () => Promise<number>;
  /** Resolves with all entries, in any order. */
  read: () => Promise<T[]>;
  /** Returns the text by which the list is sorted. */
  placeOf: (entry: T) => string;
}

/**
 * A sorted list that is read from Redis when it is first asked for, and again if its number of entries has changed, if
 * this process has changed it (`forget`), or after ten seconds. So only if another process adds as many entries as it
 * removes, the list is older than the call, by ten seconds at most.
 */
export class KeptList<T> {
  readonly #source: Source<T>;
  #kept: Promise<readonly T[]> | undefined;
  #untilMs = 0;

  constructor(source: Source<T>) {
    this.#source = source;
  }

  /** Throws what the source throws. */
  async sorted(): Promise<readonly T[]> {
    const kept = clock.monotonicMs() < this.#untilMs ? this.#kept : undefined;
    if (kept) {
      const [list, count] = await Promise.all([kept, this.#source.count()]);
      if (list.length === count) return list;
      // Another call may have begun to read it again meanwhile.
      if (this.#kept !== kept && this.#kept) return this.#kept;
    }
    return this.#begin();
  }

  /** Makes the next call read the list, since this process has changed it. */
  forget(): void {
    this.#kept = undefined;
    this.#untilMs = 0;
  }

  #begin(): Promise<readonly T[]> {
    const reading = this.#read();
    this.#kept = reading;
    this.#untilMs = clock.monotonicMs() + KEPT_MS;
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
