/**
 * Limits how much work of one owner is under way at a time. The rest waits, in the order of the calls, and holds up nobody
 * else.
 */
export class OwnerLimit {
  readonly #max: number;
  readonly #owners = new Map<string, { underWay: number; waiting: (() => void)[] }>();

  /** Each owner has at most `max` works under way. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `work` as soon as fewer than the maximum of its owner are under way. Settles as it does. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const line = this.#owners.get(owner) ?? { underWay: 0, waiting: [] };
    this.#owners.set(owner, line);
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
