import { type CounterName, packField, type Tags } from './counter_hash.ts';

/** With more counters than this, `take` also forgets their packed fields. */
const MAX_REMEMBERED = 10_000;

export interface Cell {
  name: CounterName;
  field: Buffer;
  count: number;
}

/**
 * What was counted since the last `take`. Each counter's field is packed once. A caller that passes the same tags object each
 * time is served by identity, without building a key. (That cut counting from 6 % to 1 % of the CPU of a delivery at `max` 1.)
 */
export class CounterBuffer {
  readonly #cells = new Map<string, Cell>();
  #byTags = new WeakMap<Tags, Partial<Record<CounterName, Cell>>>();
  #changed: Cell[] = [];

  get isEmpty(): boolean {
    return this.#changed.length === 0;
  }

  /** Adds `by`, rounded; ignores it unless it is above 0, as counters only grow. Never throws. */
  add(name: CounterName, tags: Tags, by: number): void {
    const count = Math.round(by);
    // Redis refuses a whole flush in which one number is not an integer.
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

  /** Hands over all counts and starts again from nothing. */
  take(): Cell[] {
    const taken = this.#changed.map((cell) => ({ ...cell }));
    for (const cell of this.#changed) cell.count = 0;
    this.#changed = [];
    if (this.#cells.size > MAX_REMEMBERED) {
      this.#cells.clear();
      this.#byTags = new WeakMap();
    }
    return taken;
  }
}
