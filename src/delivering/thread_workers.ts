import type { Config } from '../config.ts';
import { spareUids, uids } from '../ids.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { Queue, type QueueSettings } from './queue.ts';
import { Standstill } from './standstill.ts';
import { tickMs, Workers, type WorkersParts } from './workers.ts';

interface ThreadParts extends Omit<WorkersParts, 'queue' | 'mayAsk'> {
  /** Called with the number of workers that are ready to take a job: once at the start, and at every change. */
  onIdle: (idle: number) => void;
}

interface ThreadSettings extends QueueSettings {
  /**
   * Number of workers, not counting the spare workers. Spare workers help while all other workers of a thread hang.
   */
  workers: number;
  acquireTimeoutMs: number;
}

/**
 * Number of regular workers for which a thread has one spare worker. Spare workers help while all regular workers hang.
 */
const WORKERS_PER_SPARE = 3;
/**
 * Number of ticks (`tickMs` in workers.ts) after which idle spare workers ask for jobs, even while no regular worker
 * hangs. Asking shows that they are alive. Asking at every tick would cost an idle thread more commands.
 */
const TICKS_PER_SPARE_ASK = 2;
/**
 * Number of ticks after which all idle workers ask for jobs, if there are several partitions. Asking at each tick would
 * cost idle partitions more commands. If the workers asked more seldom, they would seem dead, because asking is also
 * their heartbeat.
 */
const TICKS_PER_ASK_AMONG_OTHERS = 2;
/**
 * Minimum workers that a thread has for a partition. One subscriber may occupy a quarter of them, and a quarter must be
 * at least one worker.
 */
const MIN_WORKERS = 4;

/**
 * Returns the number of workers that a thread has for each partition. If the bus has several partitions, the configured
 * number is divided among them and rounded up. But each partition gets at least MIN_WORKERS.
 */
export function workersOfPartition(
  { workersPerThread }: Pick<Config, 'workersPerThread'>,
  { all }: Partitions,
): number {
  return all.length === 1
    ? workersPerThread
    : Math.max(MIN_WORKERS, Math.ceil(workersPerThread / all.length));
}

/**
 * The workers of one thread for one partition. In a standstill, all regular workers are busy and none ends its job,
 * because subscribers hang. Spare workers then serve other subscribers.
 */
export class ThreadWorkers {
  readonly #onIdle: (idle: number) => void;
  readonly #regular: Workers;
  readonly #spare: Workers;
  readonly #standstill: Standstill;
  readonly #idle = { regular: 0, spare: 0 };

  constructor(partition: Partition, { onIdle, ...parts }: ThreadParts, settings: ThreadSettings) {
    const { workers } = settings;
    const ticks = { tickMs: tickMs(settings) };
    this.#onIdle = onIdle;
    this.#standstill = new Standstill(() => {
      this.#report();
      // Before a standstill, `wake` wakes no spare worker. So a job that became ready before it may still wait, and the
      // spare workers are woken now.
      this.#spare.wake();
    });
    this.#regular = new Workers(
      { ...parts, queue: new Queue(partition, 'main', settings), onIdle: (idle) => this.#changed(idle) },
      { ids: uids(workers), ...ticks, ticksPerAsk: partition.hasOthers ? TICKS_PER_ASK_AMONG_OTHERS : 1 },
    );
    this.#spare = new Workers(
      {
        ...parts,
        queue: new Queue(partition, 'main', settings, 'spare'),
        onIdle: (idle) => this.#report({ spare: idle }),
        mayAsk: () => this.#standstill.holds,
      },
      { ids: spareUids(Math.ceil(workers / WORKERS_PER_SPARE)), ...ticks, ticksPerAsk: TICKS_PER_SPARE_ASK },
    );
  }

  start(): void {
    this.#regular.start();
    this.#spare.start();
  }

  /**
   * Makes an idle worker ask for a job. It is a regular worker or, during a standstill, a spare worker. If no such
   * worker is idle, other threads are woken.
   */
  wake(): void {
    const { regular, spare } = this.#idle;
    (regular === 0 && spare > 0 && this.#standstill.holds ? this.#spare : this.#regular).wake();
  }

  /** Finishes the jobs under way. Jobs that take longer than `graceMs` are given back to the queue. Never rejects. */
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
