import { clock } from '../clock.ts';

/** Maximum time for long work in one turn of the event loop. */
const BUDGET_MS = 2;

/**
 * Spreads long work, such as parsing long bodies, over several turns of the event loop. Otherwise Node would handle the
 * data of all connections in one turn, and the last request would wait for all others. The work is done in steps. The
 * clients for whom it is done (the owners of the steps) take turns, so that one with much work does not hold up the
 * others.
 */
export class WorkBudget {
  /**
   * The steps of work that wait to start, by owner: mostly the client for whom they are done. The owner whose turn is
   * next comes first.
   */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #budgetMs: number;
  /**
   * When the time for long work in this turn of the event loop is over. Undefined if no work has been asked for in this
   * turn.
   */
  #endsAtMs: number | undefined;
  #isStarting = false;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Resolves when a step of long work may start. Await this directly before each step, because the time of the step is
   * measured from here to the next `await`. The steps of one owner, such as a client, start in order, and the owners
   * take turns.
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
      // The step that `#next()?.()` has let go runs during this `await`. Without the `await`, all steps would be let go
      // before the first has shown how long it takes.
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

  /**
   * Returns the function that starts the next step of work, and puts its owner, such as a client, behind all other
   * owners.
   */
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
