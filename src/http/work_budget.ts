import { clock } from '../clock.ts';

/** Maximum time of work in one turn of the event loop before other connections are served. */
const BUDGET_MS = 4;

/**
 * Spreads long work over turns of the event loop. In one turn Node delivers the data of all connections;
 * without a limit, the last request would wait for the work of all others, even if only to be refused.
 */
export class WorkBudget {
  readonly #waiting: (() => void)[] = [];
  readonly #budgetMs: number;
  #endsAtMs: number | undefined;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Call before long work. Returns undefined if the work may start at once, or a promise to await. Work
   * starts in the order of the calls.
   */
  turn(): Promise<void> | undefined {
    const nowMs = clock.monotonicMs();
    if (this.#endsAtMs === undefined) {
      this.#endsAtMs = nowMs + this.#budgetMs;
      setImmediate(() => void this.#goOn());
    }
    if (nowMs < this.#endsAtMs && this.#waiting.length === 0) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #goOn(): Promise<void> {
    const endsAtMs = clock.monotonicMs() + this.#budgetMs;
    while (this.#waiting.length > 0 && clock.monotonicMs() < endsAtMs) {
      this.#waiting.shift()?.();
      // Lets the work run until it awaits something.
      await undefined;
    }
    if (this.#waiting.length > 0) setImmediate(() => void this.#goOn());
    else this.#endsAtMs = undefined;
  }
}
