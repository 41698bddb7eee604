/**
 * Limits how many functions run at a time for one owner, such as a client or a kind of work. Further functions of this
 * owner wait, and start in the order of the calls of `run`.
 */
export class OwnerLimit {
  readonly #max: number;
  readonly #owners = new Map<string, { underWay: number; waiting: (() => void)[] }>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `work` as soon as fewer than `max` functions run for its owner. Settles as `work` does. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    let line = this.#owners.get(owner);
    if (!line) {
      line = { underWay: 0, waiting: [] };
      this.#owners.set(owner, line);
    }
    if (line.underWay < this.#max) line.underWay++;
    else await new Promise<void>((resolve) => line.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = line.waiting.shift();
      if (next) next();
      else if (--line.underWay === 0) this.#owners.delete(owner);
    }
  }
}
