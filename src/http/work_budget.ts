import { clock } from '../clock.ts';

/** Maximum time for long work in one turn of the event loop. */
const BUDGET_MS = 2;

/**
 * Spreads long work, such as parsing long bodies, over several turns of the event loop. Otherwise Node would handle the
 * data of all connections in one turn, and the last request would wait for all others.
 */
export class WorkBudget {
  /** For each owner, the steps of its work that wait. The first owner has the next turn. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #budgetMs: number;
  #endsAtMs: number | undefined;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Call this before each step of long work. Returns undefined if the step may start at once, otherwise a promise to
   * await first. If many callers may continue at the same moment, do not await undefined: all of them would ask before
   * the first one has spent any time. `owner`, such as a client's token, says for whom the work is. Owners take turns,
   * and the steps of one owner start in order.
   */
  turn(owner = ''): Promise<void> | undefined {
    const nowMs = clock.monotonicMs();
    if (this.#endsAtMs === undefined) {
      this.#endsAtMs = nowMs + this.#budgetMs;
      setImmediate(() => void this.#goOn());
    }
    if (nowMs < this.#endsAtMs && this.#waiting.size === 0) return undefined;
    return new Promise((resolve) => {
      const line = this.#waiting.get(owner);
      if (line) line.push(resolve);
      else this.#waiting.set(owner, [resolve]);
    });
  }

  async #goOn(): Promise<void> {
    const endsAtMs = clock.monotonicMs() + this.#budgetMs;
    while (this.#waiting.size > 0 && clock.monotonicMs() < endsAtMs) {
      this.#next()?.();
      // `#next()?.()` only resolves a promise. The step of work that awaits this promise runs during the `await` here.
      // Without it, all steps would start before the time of the first one is known.
      await undefined;
    }
    if (this.#waiting.size > 0) setImmediate(() => void this.#goOn());
    else this.#endsAtMs = undefined;
  }

  /** Removes and returns the first waiting step of the first owner. This owner then comes after all others. */
  #next(): (() => void) | undefined {
    for (const [owner, line] of this.#waiting) {
      const work = line.shift();
      this.#waiting.delete(owner);
      if (line.length > 0) this.#waiting.set(owner, line);
      return work;
    }
    return undefined;
  }
}
