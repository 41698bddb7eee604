import { uids } from '../ids.ts';
import type { Partition } from '../store/partition.ts';
import { Queue, type QueueSettings } from './queue.ts';
import { Standstill } from './standstill.ts';
import { tickMs, Workers, type WorkersParts } from './workers.ts';

interface ThreadParts extends Omit<WorkersParts, 'queue' | 'mayAsk'> {
  /** Called with the number of workers that would take a job now, at the start and at every change. */
  onIdle: (idle: number) => void;
}

interface ThreadSettings extends QueueSettings {
  workersPerThread: number;
  acquireTimeoutMs: number;
}

/** Number of regular workers for each spare worker. */
const WORKERS_PER_SPARE = 3;

/**
 * The workers of one thread that deliver from one partition. While all of them stand still, as they do when
 * subscribers hang, spare workers serve the other subscribers.
 */
export class ThreadWorkers {
  readonly #onIdle: (idle: number) => void;
  readonly #regular: Workers;
  readonly #spare: Workers;
  readonly #standstill: Standstill;
  readonly #idle = { regular: 0, spare: 0 };

  constructor(partition: Partition, { onIdle, ...parts }: ThreadParts, settings: ThreadSettings) {
    const { workersPerThread } = settings;
    const ticks = { tickMs: tickMs(settings) };
    this.#onIdle = onIdle;
    this.#standstill = new Standstill(() => {
      this.#report();
      // Wakes the spare workers for jobs that became ready before the standstill, and so woke nobody.
      this.#spare.wake();
    });
    this.#regular = new Workers(
      { ...parts, queue: new Queue(partition, 'main', settings), onIdle: (idle) => this.#changed(idle) },
      { ids: uids(workersPerThread), ...ticks },
    );
    this.#spare = new Workers(
      {
        ...parts,
        queue: new Queue(partition, 'main', settings, 'spare'),
        onIdle: (idle) => this.#report({ spare: idle }),
        mayAsk: () => this.#standstill.holds,
      },
      { ids: uids(Math.ceil(workersPerThread / WORKERS_PER_SPARE)), ...ticks },
    );
  }

  start(): void {
    this.#regular.start();
    this.#spare.start();
  }

  /** Makes an idle worker ask for a job. If no worker of this thread may ask, other threads are woken. */
  wake(): void {
    const { regular, spare } = this.#idle;
    (regular === 0 && spare > 0 && this.#standstill.holds ? this.#spare : this.#regular).wake();
  }

  /** Finishes the jobs under way; gives back those that last longer than `graceMs`. Never rejects. */
  async stop(graceMs: number): Promise<void> {
    await Promise.all([this.#regular.stop(graceMs), this.#spare.stop(graceMs)]);
  }

  #changed(idle: number): void {
    this.#standstill.changed(idle);
    this.#report({ regular: idle });
  }

  #report(changed: { regular?: number; spare?: number } = {}): void {
    const { regular, spare } = Object.assign(this.#idle, changed);
    this.#onIdle(regular > 0 || !this.#standstill.holds ? regular : spare);
  }
}
