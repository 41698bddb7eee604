import { clock, pauseAfter } from '../clock.ts';

/**
 * Limits how many functions run at the same time for one owner, such as a client or a kind of work. Further functions
 * of this owner wait, and start in the order in which `run` was called.
 */
export class OwnerLimit {
  readonly #max: number;
  readonly #maxPauseMs: number;
  readonly #owners = new Map<string, { underWay: number; waiting: (() => void)[] }>();

  /**
   * A function that had to wait starts only after a pause, so that an owner with a long queue leaves time for other
   * owners. The pause is as long as the previous function ran, but at most `maxPauseMs`.
   */
  constructor(max: number, maxPauseMs = 0) {
    this.#max = max;
    this.#maxPauseMs = maxPauseMs;
  }

  /** Runs `work` as soon as fewer than `max` functions run for its owner. Resolves or rejects as `work` does. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    let state = this.#owners.get(owner);
    if (!state) {
      state = { underWay: 0, waiting: [] };
      this.#owners.set(owner, state);
    }
    if (state.underWay < this.#max) state.underWay++;
    else await new Promise<void>((resolve) => state.waiting.push(resolve));
    const beganMs = clock.monotonicMs();
    try {
      return await work();
    } finally {
      const next = state.waiting.shift();
      if (next) void pauseAfter(beganMs, this.#maxPauseMs).then(next);
      else if (--state.underWay === 0) this.#owners.delete(owner);
    }
  }
}
