import { packField, type Tags } from './counter_field.ts';
import type { CounterName } from './counter_names.ts';

/** Beyond so many names and tags, their packed forms are forgotten at the next `take`. */
const MOST_REMEMBERED = 10_000;

export interface Cell {
  name: CounterName;
  field: Buffer;
  count: number;
}

/** What was counted since the last `take`, with every name and tags packed only once. */
export class CounterBuffer {
  readonly #cells = new Map<string, Cell>();
  #changed: Cell[] = [];

  get isEmpty(): boolean {
    return this.#changed.length === 0;
  }

  /** Rounds `by`; does nothing if that is not above 0: counters only grow. Never throws. */
  add(name: CounterName, tags: Tags, by: number): void {
    const count = Math.round(by);
    // A number that is no integer would make Redis refuse all that is flushed with it.
    if (!Number.isSafeInteger(count) || count <= 0) return;
    let id: string = name;
    for (const tag in tags) id += `\0${tag}\0${tags[tag]}`;
    let cell = this.#cells.get(id);
    if (!cell) {
      cell = { name, field: packField(name, tags), count: 0 };
      this.#cells.set(id, cell);
    }
    if (cell.count === 0) this.#changed.push(cell);
    cell.count += count;
  }

  /** Hands over all that was counted, and starts again from nothing. */
  take(): Cell[] {
    const taken = this.#changed.map((cell) => ({ ...cell }));
    for (const cell of this.#changed) cell.count = 0;
    this.#changed = [];
    if (this.#cells.size > MOST_REMEMBERED) this.#cells.clear();
    return taken;
  }
}
