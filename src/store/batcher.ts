/** Number of waiting items that are sent at once, without waiting for the end of the event loop's turn. */
const ENOUGH = 128;
/**
 * If fewer items than this wait after one turn of the event loop, they are sent. Otherwise they wait one
 * more.
 */
const FEW = 4;

/** Limits the size of a call: the weights of its items sum up to at most `max`. A heavier item goes alone. */
export interface CallLimit<Item> {
  max: number;
  weigh?: (item: Item) => number;
  /**
   * Returns the owner of an item. If more items wait than one call takes, owners take turns. By default all
   * items have the same owner.
   */
  ownerOf?: (item: Item) => string;
}

interface Waiting<Item, Result> {
  item: Item;
  weight: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * Sends items to Redis in groups. Items that arrive in one turn of the event loop, or during a call, share
 * the next call. Under load one call has many items; an item that arrives alone waits for one turn. Only one
 * call is in progress at a time.
 */
export class Batcher<Item, Result> {
  readonly #call: (items: Item[]) => Promise<readonly Result[]>;
  readonly #max: number;
  readonly #weigh: (item: Item) => number;
  readonly #ownerOf: (item: Item) => string;
  /** Number of the last turn of each owner of a waiting item. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  #waiting: Waiting<Item, Result>[] = [];
  #isRunning = false;
  #stopGathering = () => {};

  /** `call` sends a group to Redis. It must resolve with one result for each item, in their order. */
  constructor(
    call: (items: Item[]) => Promise<readonly Result[]>,
    { max, weigh = () => 1, ownerOf = () => '' }: CallLimit<Item>,
  ) {
    this.#call = call;
    this.#max = max;
    this.#weigh = weigh;
    this.#ownerOf = ownerOf;
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
    this.#turns.clear();
  }

  /**
   * Waits for the items that arrive in this turn of the event loop and the next. The second turn saves CPU:
   * with 64 connections, 16 % of Redis's and 5 % of the web process's. A call of `publish` then has 52
   * publications instead of 31. With a thousand busy sockets a turn lasts long, so ENOUGH items end the wait.
   */
  #gather(): Promise<void> {
    return new Promise((resolve) => {
      this.#stopGathering = resolve;
      if (this.#waiting.length >= ENOUGH) resolve();
      else setImmediate(() => (this.#waiting.length < FEW ? resolve() : setImmediate(resolve)));
    });
  }

  /**
   * Removes and returns the items of the next call, in the order of arrival. If not all items fit, the owners
   * of the items take turns.
   */
  #nextGroup(): Waiting<Item, Result>[] {
    const weight = this.#waiting.reduce((sum, each) => sum + each.weight, 0);
    if (weight <= this.#max) return this.#waiting.splice(0);
    const chosen = this.#chosen();
    const group = this.#waiting.filter((each) => chosen.has(each));
    this.#waiting = this.#waiting.filter((each) => !chosen.has(each));
    return group;
  }

  /**
   * Chooses one item of each owner in turn until the call is full. Begins with the owner whose last turn is
   * longest ago.
   */
  #chosen(): Set<Waiting<Item, Result>> {
    const chosen = new Set<Waiting<Item, Result>>();
    const lastTurn = (owner: string) => this.#turns.get(owner) ?? 0;
    let lines = [...Map.groupBy(this.#waiting, ({ item }) => this.#ownerOf(item))];
    lines.sort(([one], [other]) => lastTurn(one) - lastTurn(other));
    let weight = 0;
    while (lines.length > 0) {
      // An owner whose next item does not fit has the first turn of the next call.
      lines = lines.filter(([owner, line]) => {
        const next = line.shift();
        if (!next || (chosen.size > 0 && weight + next.weight > this.#max)) return false;
        weight += next.weight;
        chosen.add(next);
        this.#turns.set(owner, ++this.#turn);
        return true;
      });
    }
    return chosen;
  }
}
