import { LRUCache } from 'lru-cache';
import { packField, type Tags } from './counter_field.ts';
import type { CounterName } from './counter_names.ts';

/** Maximum names with tags whose packed forms are remembered. */
const MAX_REMEMBERED = 10_000;

export interface Cell {
  name: CounterName;
  field: Buffer;
  count: number;
}

/**
 * Counts since the last `take`. A name and its tags are packed once. A caller that counts often passes the same tags object each
 * time: it is found by identity, and counting then takes 1 % of the CPU of a delivery at `max` 1, not 6 %.
 */
export class CounterBuffer {
  readonly #cells = new LRUCache<string, Cell>({ max: MAX_REMEMBERED });
  readonly #byTags = new WeakMap<Tags, Partial<Record<CounterName, Cell>>>();
  #changed: Cell[] = [];

  get isEmpty(): boolean {
    return this.#changed.length === 0;
  }

  /** Rounds `by`; does nothing if that is not above 0: counters only grow. Never throws. */
  add(name: CounterName, tags: Tags, by: number): void {
    const count = Math.round(by);
    // A number that is no integer would make Redis refuse all that is flushed with it.
    if (!Number.isSafeInteger(count) || count <= 0) return;
    let cells = this.#byTags.get(tags);
    if (!cells) {
      cells = {};
      this.#byTags.set(tags, cells);
    }
    cells[name] ??= this.#find(name, tags);
    const cell = cells[name];
    if (cell.count === 0) this.#changed.push(cell);
    cell.count += count;
  }

  #find(name: CounterName, tags: Tags): Cell {
    let id: string = name;
    for (const tag in tags) id += `\0${tag}\0${tags[tag]}`;
    let cell = this.#cells.get(id);
    if (!cell) {
      cell = { name, field: packField(name, tags), count: 0 };
      this.#cells.set(id, cell);
    }
    return cell;
  }

  /** Hands over all that was counted, and starts again from nothing. */
  take(): Cell[] {
    const taken = this.#changed.map((cell) => ({ ...cell }));
    for (const cell of this.#changed) cell.count = 0;
    this.#changed = [];
    return taken;
  }
}
