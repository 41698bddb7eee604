import { clock } from '../clock.ts';

/** Maximum time for long work in one turn of the event loop. */
const BUDGET_MS = 2;

/**
 * Spreads long work, such as parsing long bodies, over several turns of the event loop, so that short requests are
 * served in between. The work is done in steps. The owners of the steps (mostly the clients for whom they are done)
 * take turns, so that one with much work does not hold up the others.
 */
export class WorkBudget {
  /** The steps that wait to start, by owner. The first owner in this map starts the next step. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #budgetMs: number;
  /** When long work must stop in this turn of the event loop. Undefined until a step starts in this turn. */
  #endsAtMs: number | undefined;
  #isStarting = false;

  constructor(budgetMs = BUDGET_MS) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Resolves when a step of long work may start. Await this right before each step, and await nothing within the step:
   * its time is measured only until the next `await`. The steps of one owner start in order, and the owners take turns.
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
      // Without this `await`, the loop would start all steps at once. With it, the step that was started last runs now,
      // and the next line sees how long it took.
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
   * Returns the function that starts the next step of work. Moves the owner of this step, such as a client, behind all
   * other owners. Returns undefined if no step waits.
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
