import { Worker } from 'node:worker_threads';
import { Patience } from '../backoff.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { StopMessage, ThreadData } from './delivery_thread.ts';

/** Keeps the delivery threads running: one that dies is replaced after a growing pause, and its jobs are scrubbed. */
export class Supervisor {
  readonly #config: Config;
  readonly #log: Log;
  readonly #threads = new Map<number, { worker: Worker; over: Promise<void> }>();
  readonly #stopping = new AbortController();

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
  }

  start(): void {
    for (let index = 1; index <= this.#config.workerThreads; index++) this.#spawn(index, new Patience());
  }

  /** Has every thread finish its deliveries within `graceMs` and give back the rest. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    const threads = [...this.#threads.values()];
    const message: StopMessage = { graceMs };
    for (const { worker } of threads) worker.postMessage(message);
    await Promise.all(threads.map(({ over }) => over));
  }

  #spawn(index: number, patience: Patience): void {
    const workerData: ThreadData = { config: this.#config, index };
    const worker = new Worker(new URL('./delivery_thread.ts', import.meta.url), { workerData });
    worker.on('error', (error) => this.#log.error({ err: error, thread: index }, 'a thread died'));
    const over = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
    this.#threads.set(index, { worker, over });
    void this.#replaceWhenOver(index, over, patience);
  }

  async #replaceWhenOver(index: number, over: Promise<void>, patience: Patience): Promise<void> {
    await over;
    this.#threads.delete(index);
    if (!this.#stopping.signal.aborted) await patience.wait(this.#stopping.signal);
    if (this.#stopping.signal.aborted) return;
    this.#log.warn({ thread: index }, 'starting a thread again');
    this.#spawn(index, patience);
  }
}
