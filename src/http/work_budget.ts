import { clock } from '../clock.ts';

/** Maximum time for long work in one turn of the event loop. */
const BUDGET_MS = 2;

/**
 * Spreads long work, such as parsing long bodies, over several turns of the event loop. Otherwise Node would handle the
 * data of all connections in one turn, and the last request would wait for all others. Each step of the work has an
 * owner, for whom it is done, such as a client. The owners take turns, so that one with many steps does not hold up the
 * others.
 */
export class WorkBudget {
  /** The steps that wait to start, by owner. The owner whose turn is next comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #budgetMs: number;
  /**
   * When the budget of this turn of the event loop is spent. Undefined if no step has asked for a start in this turn.
   */
  #endsAtMs: number | undefined;
  #isStarting = false;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Resolves when a step of long work may start. Await this directly before each step, because the time of the step is
   * measured from here to the next `await`. The steps of one owner, such as a client's token, start in order, and the
   * owners take turns.
   */
  whenFree(owner = ''): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#waiting.get(owner);
      if (queue) queue.push(resolve);
      else this.#waiting.set(owner, [resolve]);
      void this.#startSteps();
    });
  }

  async #startSteps(): Promise<void> {
    if (this.#isStarting) return;
    this.#isStarting = true;
    this.#endsAtMs ??= this.#beginBudget();
    for (;;) {
      // This `await` lets the step run whose promise `#next()?.()` has just resolved. Without it, all steps would be
      // started before the time of the first one is known.
      await undefined;
      if (this.#waiting.size === 0 || clock.monotonicMs() >= this.#endsAtMs) break;
      this.#next()?.();
    }
    this.#isStarting = false;
  }

  #beginBudget(): number {
    setImmediate(() => {
      this.#endsAtMs = undefined;
      if (this.#waiting.size > 0) void this.#startSteps();
    });
    return clock.monotonicMs() + this.#budgetMs;
  }

  /** Removes and returns the first waiting step of the first owner, and puts this owner behind all others. */
  #next(): (() => void) | undefined {
    for (const [owner, queue] of this.#waiting) {
      const work = queue.shift();
      this.#waiting.delete(owner);
      if (queue.length > 0) this.#waiting.set(owner, queue);
      return work;
    }
    return undefined;
  }
}
