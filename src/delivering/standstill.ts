import { clock } from '../clock.ts';

/**
 * If all regular workers of a thread are busy, and no job has begun or ended for this time, the thread is at a
 * standstill, and its spare workers help. With a longer time, a hanging subscriber would delay other subscribers
 * longer.
 */
const AFTER_MS = 10;

/**
 * Notices when a thread is at a standstill (see AFTER_MS). Many quick deliveries cause no standstill, because jobs keep
 * beginning and ending.
 */
export class Standstill {
  readonly #begins: () => void;
  #changedMs = 0;
  #busy = false;
  #holds = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(begins: () => void) {
    this.#begins = begins;
  }

  /** True while the thread is at a standstill, which ends when a regular worker ends its job. */
  get holds(): boolean {
    return this.#holds;
  }

  /** Notes that a job has just begun or ended. `idle` is the number of regular workers that are idle now. */
  changed(idle: number): void {
    this.#changedMs = clock.monotonicMs();
    this.#busy = idle === 0;
    this.#holds = false;
    if (this.#busy) this.#timer ??= this.#look(AFTER_MS);
  }

  #look(afterMs: number): NodeJS.Timeout {
    const look = () => {
      this.#timer = undefined;
      if (!this.#busy) return;
      const leftMs = this.#changedMs + AFTER_MS - clock.monotonicMs();
      if (leftMs > 0) {
        this.#timer = this.#look(leftMs);
      } else {
        this.#holds = true;
        this.#begins();
      }
    };
    return setTimeout(look, afterMs).unref();
  }
}
