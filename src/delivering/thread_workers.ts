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
 * Spare workers help while all regular workers of a thread are busy. At other times, an idle spare worker asks for a
 * job only to show that it is alive, whenever this many ticks (`tickMs` in workers.ts) have passed. Asking at each tick
 * would send Redis more commands.
 */
const TICKS_PER_SPARE_ASK = 2;
/**
 * If the bus has several partitions, an idle regular worker asks for a job whenever this many ticks have passed. A
 * thread has workers for each partition, so asking at each tick would cost many commands. But three ticks can be as
 * long as a lease, and a worker that is silent for that long counts as dead.
 */
const TICKS_PER_ASK_IF_PARTITIONED = 2;
/**
 * Minimum workers of a thread for each partition. If a subscriber that hangs keeps one of four workers busy, three
 * still deliver to other subscribers.
 */
const MIN_WORKERS = 4;

/**
 * Returns how many workers a thread has for each partition. A single partition gets all workers of the thread. Several
 * partitions get equal parts, rounded up, of at least MIN_WORKERS.
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

  constructor(partition: Partition, { onIdle, ...parts }: ThreadParts, settings: ThreadSettings) {
    const { workers } = settings;
    const ticks = { tickMs: tickMs(settings) };
    this.#onIdle = onIdle;
    this.#standstill = new Standstill(() => {
      this.#report();
      // A standstill has begun, so spare workers may take jobs now. Jobs may be ready already, so a spare worker is
      // woken to ask for them.
      this.#spare.wake();
    });
    this.#regular = new Workers(
      {
        ...parts,
        queue: new Queue(partition, 'main', settings),
        onIdle: (idle) => {
          this.#standstill.changed(idle);
          this.#report();
        },
      },
      { ids: uids(workers), ...ticks, ticksPerAsk: partition.hasOthers ? TICKS_PER_ASK_IF_PARTITIONED : 1 },
    );
    this.#spare = new Workers(
      {
        ...parts,
        queue: new Queue(partition, 'main', settings, 'spare'),
        onIdle: () => this.#report(),
        mayAsk: () => this.#standstill.holds,
      },
      { ids: spareUids(Math.ceil(workers / WORKERS_PER_SPARE)), ...ticks, ticksPerAsk: TICKS_PER_SPARE_ASK },
    );
  }

  start(): void {
    this.#regular.start();
    this.#spare.start();
  }

  /** Wakes an idle regular worker or, in a standstill, an idle spare worker. If there is none, wakes another thread. */
  wake(): void {
    const sparesHelp = this.#standstill.holds && this.#regular.idle === 0 && this.#spare.idle > 0;
    (sparesHelp ? this.#spare : this.#regular).wake();
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all([this.#regular.stop(graceMs), this.#spare.stop(graceMs)]);
  }

  #report(): void {
    const sparesHelp = this.#standstill.holds && this.#regular.idle === 0;
    this.#onIdle((sparesHelp ? this.#spare : this.#regular).idle);
  }
}
