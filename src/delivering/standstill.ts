import { clock } from '../clock.ts';

/**
 * If all workers of a thread are busy, and none has begun or ended a job for this time, the thread is at a standstill,
 * and its spare workers help. With a longer time, a hanging subscriber would delay the others longer.
 */
const AFTER_MS = 10;

/**
 * Notices standstills: times in which all regular workers are busy with long jobs, so that spare workers must help.
 * Quick deliveries cause no standstill, however many there are, because workers keep beginning and ending jobs.
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

  /**
   * True during a standstill: all workers are busy, and for AFTER_MS no job has begun or ended. A standstill ends when
   * one of the workers ends its job.
   */
  get holds(): boolean {
    return this.#holds;
  }

  /** Call this whenever a job has begun or ended. `idle` is the number of idle workers. */
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
