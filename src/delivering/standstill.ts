import { clock } from '../clock.ts';

/**
 * Workers stand still if all are busy and none has begun or ended a job for this time. It is longer than the pauses
 * between quick deliveries. It is short, because other subscribers wait until the standstill is noticed and spare
 * workers help.
 */
const AFTER_MS = 10;

/**
 * Notices when the workers stand still: all are busy, and no job has begun or ended for 10 ms. Quick deliveries cause
 * no standstill, however many there are.
 */
export class Standstill {
  readonly #begins: () => void;
  #changedMs = 0;
  #busy = false;
  #holds = false;
  #timer: NodeJS.Timeout | undefined;

  /** `begins` is called when all workers are busy and none has begun or ended a job for 10 ms. */
  constructor(begins: () => void) {
    this.#begins = begins;
  }

  /**
   * True while the workers stand still: all are busy, and none has begun or ended a job for 10 ms. A standstill ends
   * when one of the workers ends its job.
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
