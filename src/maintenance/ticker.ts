import type { Queue } from '../delivering/queue.ts';
import { type Log, reasonOf } from '../log.ts';

/** Puts a job on `aux` at an interval. Several processes may put the same job: the queue holds it once. */
export class Ticker {
  readonly #timer: NodeJS.Timeout;

  /** Puts the first job at once. */
  constructor(aux: Queue, job: string, everyMs: number, log: Log) {
    const tick = () => {
      aux.enqueue(job).catch((error: unknown) => {
        log.warn({ job, reason: reasonOf(error) }, 'a ticker could not put its job');
      });
    };
    tick();
    this.#timer = setInterval(tick, everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
