/** Pseudorandom numbers that depend only on the seed (mulberry32, seeded by FNV-1a). */
export class Random {
  readonly #seed: string;
  #state = 2_166_136_261;

  constructor(seed: string) {
    this.#seed = seed;
    for (const byte of Buffer.from(seed)) this.#state = Math.imul(this.#state ^ byte, 16_777_619);
  }

  /**
   * Returns an independent stream of numbers. So the draws of one part of a scenario do not change the draws of
   * another.
   */
  fork(name: string): Random {
    return new Random(`${this.#seed}/${name}`);
  }

  /** Returns a number from 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let x = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  between(min: number, max: number): number {
    return min + this.next() * (max - min);
  }

  /** Returns a whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number {
    return Math.floor(this.between(min, max + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.whole(0, items.length - 1)] as T;
  }

  shuffled<T>(items: readonly T[]): T[] {
    return items
      .map((item) => [this.next(), item] as const)
      .sort(([a], [b]) => a - b)
      .map(([, item]) => item);
  }
}
