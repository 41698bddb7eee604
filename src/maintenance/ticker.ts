import type { Queue } from '../delivering/queue.ts';
import type { Log } from '../log.ts';

/** Puts a job on `aux` every so often; does no work itself. The queue's uniqueness makes one of what many tickers put. */
export class Ticker {
  readonly #timer: NodeJS.Timeout;

  /** The first job is put at once. */
  constructor(aux: Queue, job: string, everyMs: number, log: Log) {
    const tick = () => {
      aux.enqueue(job).catch((error: unknown) => {
        log.warn(
          { job, reason: error instanceof Error ? error.message : error },
          'a ticker could not put its job',
        );
      });
    };
    tick();
    this.#timer = setInterval(tick, everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
