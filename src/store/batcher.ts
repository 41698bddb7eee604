/** A group of this size is sent without waiting for the end of the turn of the event loop. */
const ENOUGH = 128;
/** A smaller group is sent after one turn of the event loop; a larger one waits for a second turn. */
const FEW = 4;

/** Limits a call: the weights of its items add up to at most `max`. A heavier item is sent alone. */
export interface CallLimit<Item> {
  max: number;
  /** Default: each item weighs 1. */
  weigh?: (item: Item) => number;
}

interface Waiting<Item, Result> {
  item: Item;
  weight: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * Group commit: items that arrive in one turn of the event loop, or during a call, share the next call. Under
 * load Redis is called once for many items; when idle it is called at once. Only one call is in progress at a
 * time.
 */
export class Batcher<Item, Result> {
  readonly #call: (items: Item[]) => Promise<readonly Result[]>;
  readonly #max: number;
  readonly #weigh: (item: Item) => number;
  #waiting: Waiting<Item, Result>[] = [];
  #isRunning = false;
  #stopGathering = () => {};

  /** `call` must resolve with a result for each item, in their order. */
  constructor(
    call: (items: Item[]) => Promise<readonly Result[]>,
    { max, weigh = () => 1 }: CallLimit<Item>,
  ) {
    this.#call = call;
    this.#max = max;
    this.#weigh = weigh;
  }

  /** Resolves with the result of this item. Rejects with the error of the call that contained it. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, weight: this.#weigh(item), resolve, reject });
      if (!this.#isRunning) void this.#run();
      else if (this.#waiting.length >= ENOUGH) this.#stopGathering();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) {
      await this.#gather();
      const group = this.#nextGroup();
      try {
        const results = await this.#call(group.map(({ item }) => item));
        group.forEach(({ resolve }, index) => void resolve(results[index] as Result));
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#isRunning = false;
  }

  /**
   * Waits for the items that arrive in this turn of the event loop and the next. With 64 connections a call
   * of `publish` then has 52 publications instead of 31, which saves 16 % of the CPU of Redis and 5 % of web.
   * With a thousand busy sockets one turn lasts long, so ENOUGH items end the wait.
   */
  #gather(): Promise<void> {
    return new Promise((resolve) => {
      this.#stopGathering = resolve;
      if (this.#waiting.length >= ENOUGH) resolve();
      else setImmediate(() => (this.#waiting.length < FEW ? resolve() : setImmediate(resolve)));
    });
  }

  #nextGroup(): Waiting<Item, Result>[] {
    let count = 0;
    let weight = 0;
    for (const next of this.#waiting) {
      weight += next.weight;
      if (count > 0 && weight > this.#max) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }
}
