import { Worker } from 'node:worker_threads';
import { Backoff } from '../backoff.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { DeliveryOrder, ThreadData } from './delivery_order.ts';
import { IdleWorkers } from './idle_workers.ts';

/**
 * Keeps the delivery threads running. After a wait, replaces a thread that has died. The wait becomes longer each time
 * the thread dies again.
 */
export class Supervisor {
  readonly #file: URL;
  readonly #config: Config;
  readonly #log: Log;
  readonly #takenOverAtMs: number | undefined;
  readonly #idleWorkers: IdleWorkers;
  readonly #threads = new Map<number, { worker: Worker; ended: Promise<void> }>();
  readonly #stopping = new AbortController();

  /**
   * `file` is the program of the threads. `takenOverAtMs` is when the bus took over Redis from a Ruby Routemaster, or
   * undefined if it did not. Older batches count as created at that time.
   */
  constructor(file: URL, config: Config, log: Log, takenOverAtMs: number | undefined) {
    this.#file = file;
    this.#config = config;
    this.#log = log;
    this.#takenOverAtMs = takenOverAtMs;
    this.#idleWorkers = IdleWorkers.ofThreads(config.workerThreads, config.partitions);
  }

  start(): void {
    for (let index = 0; index < this.#config.workerThreads; index++) this.#spawn(index, new Backoff());
  }

  /**
   * Makes one thread with idle workers ask for jobs of a partition. Does nothing if all workers are busy: a busy worker
   * asks for its next job anyway when it ends its present one.
   */
  wake(partition: number): void {
    const index = this.#idleWorkers.mostIdleThread(partition);
    if (index !== undefined) this.#order(index, { kind: 'look', partition });
  }

  /**
   * Ends the threads. Deliveries that take longer than `graceMs` are given back to the queue. Resolves when all threads
   * have ended.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    const threads = [...this.#threads];
    for (const [index] of threads) this.#order(index, { kind: 'stop', graceMs });
    await Promise.all(threads.map(([, { ended }]) => ended));
  }

  #order(index: number, order: DeliveryOrder): void {
    this.#threads.get(index)?.worker.postMessage(order);
  }

  #spawn(index: number, backoff: Backoff): void {
    const workerData: ThreadData = {
      config: this.#config,
      index,
      idleCounts: this.#idleWorkers.counts,
      takenOverAtMs: this.#takenOverAtMs,
    };
    const worker = new Worker(this.#file, { workerData });
    worker.on('error', (error) => this.#log.error({ err: error, thread: index }, 'a thread died'));
    // A thread sends this message if jobs of a partition are ready, but all of the thread's workers for this partition
    // are busy. So another thread is woken.
    worker.on('message', (partition: number) => this.wake(partition));
    const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
    this.#threads.set(index, { worker, ended });
    void this.#replaceWhenEnded(index, ended, backoff);
  }

  async #replaceWhenEnded(index: number, ended: Promise<void>, backoff: Backoff): Promise<void> {
    await ended;
    this.#threads.delete(index);
    this.#idleWorkers.clear(index);
    // Perhaps the thread was told of a ready job, and ended before it took the job. So another thread is woken for each
    // partition.
    for (let partition = 0; partition < this.#config.partitions; partition++) this.wake(partition);
    if (!this.#stopping.signal.aborted) await backoff.wait(this.#stopping.signal);
    if (this.#stopping.signal.aborted) return;
    this.#log.warn({ thread: index }, 'starting a thread again');
    this.#spawn(index, backoff);
  }
}
