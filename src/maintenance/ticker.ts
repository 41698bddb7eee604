import type { Queue } from '../delivering/queue.ts';
import type { Log } from '../log.ts';

/** Puts a job on `aux` at an interval. Several processes may put the same job: the queue holds it once. */
export class Ticker {
  readonly #timer: NodeJS.Timeout;

  /** Puts the first job at once. */
  constructor(aux: Queue, job: string, everyMs: number, log: Log) {
    const tick = () => {
      aux.enqueue(job).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : error;
        log.warn({ job, reason }, 'a ticker could not put its job');
      });
    };
    tick();
    this.#timer = setInterval(tick, everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
