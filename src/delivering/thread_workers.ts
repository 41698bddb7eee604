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
  workers: number;
  acquireTimeoutMs: number;
}

const WORKERS_PER_SPARE = 3;
/**
 * Idle spare workers ask for jobs once in this many ticks (`tickMs` in workers.ts), to show that they are alive. Asking
 * at each tick would cost an idle thread more commands.
 */
const TICKS_PER_SPARE_ASK = 2;
/**
 * On a bus with several partitions, idle regular workers ask for jobs once in this many ticks, to show that they are
 * alive. A thread has workers for each partition, so asking at each tick would cost many commands. Three ticks would be
 * too many: a worker that is silent for so long can count as dead.
 */
const TICKS_PER_ASK_IF_PARTITIONED = 2;
/**
 * Minimum workers of a thread for a partition. A subscriber that hangs may keep one worker busy, and with fewer than
 * four workers it would block more than a quarter of them.
 */
const MIN_WORKERS = 4;

/**
 * Returns how many workers a thread has for each partition: all of them or, with several partitions, an equal part,
 * rounded up and at least MIN_WORKERS.
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
 * The workers of one thread for one partition. Its spare workers deliver during a standstill, when all regular workers
 * are busy with subscribers that hang.
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
      // A standstill has begun. A job that became ready before the standstill has woken no spare worker, and may still
      // wait. So a spare worker is woken to look for such a job.
      this.#spare.wake();
    });
    this.#regular = new Workers(
      { ...parts, queue: new Queue(partition, 'main', settings), onIdle: (idle) => this.#changed(idle) },
      { ids: uids(workers), ...ticks, ticksPerAsk: partition.hasOthers ? TICKS_PER_ASK_IF_PARTITIONED : 1 },
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
   * Wakes an idle regular worker or, during a standstill, an idle spare worker. If there is none, wakes other threads.
   */
  wake(): void {
    const { regular, spare } = this.#idle;
    (regular === 0 && spare > 0 && this.#standstill.holds ? this.#spare : this.#regular).wake();
  }

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
