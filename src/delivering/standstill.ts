import { clock } from '../clock.ts';

/**
 * Busy workers stand still if none has begun or ended a job for this time. It is longer than the gaps between
 * quick deliveries, but short, since other deliveries wait meanwhile.
 */
const AFTER_MS = 10;

/**
 * Notices when workers stand still: all are busy, and none has begun or ended a job for 10 ms. Quick
 * deliveries cause no standstill, however many there are.
 */
export class Standstill {
  readonly #begins: () => void;
  #changedMs = 0;
  #busy = false;
  #holds = false;
  #timer: NodeJS.Timeout | undefined;

  /** `begins` is called when a standstill begins. */
  constructor(begins: () => void) {
    this.#begins = begins;
  }

  /** True while the workers stand still. The standstill ends when one of them ends its job. */
  get holds(): boolean {
    return this.#holds;
  }

  /** Call this whenever a worker has begun or ended a job, with the number of idle workers. */
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
