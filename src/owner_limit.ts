/**
 * Limits how much work of one owner runs at a time. The rest waits, in the order of the calls. Work of other owners
 * does not wait for it.
 */
export class OwnerLimit {
  readonly #max: number;
  readonly #owners = new Map<string, { underWay: number; waiting: (() => void)[] }>();

  /** `max` is the maximum number of works that run at a time for one owner. */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Runs `work` as soon as less work of its owner runs than the maximum. Settles with the result or the error of
   * `work`.
   */
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
