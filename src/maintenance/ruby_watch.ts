import { failureOf, type Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

const EVERY_MS = 10_000;

const STOP_IT = 'stop it, as docs/migrating.md says';

interface RubyWatchParts {
  partition: Partition;
  leaseMs: number;
  /**
   * Runs a sweep, which repairs inconsistencies in Redis, such as lost delivery jobs. `rubyWorkers` is the number of
   * living Ruby workers. A Ruby worker would delete a repaired job, because it does not find the batch. So if there are
   * any, the job goes into a list that only this bus reads.
   */
  sweep: (rubyWorkers: number) => Promise<void>;
  log: Log;
}

/**
 * Watches for processes of the Ruby Routemaster that still use their Redis after this bus took it over. If there is
 * one, logs an error and starts a sweep at once, which repairs what the process did. This is not a job in the queue
 * `aux`, because a Ruby worker would take such a job.
 */
export class RubyWatch {
  readonly #parts: RubyWatchParts;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(parts: RubyWatchParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#looking ??= this.look().finally(() => {
        this.#looking = undefined;
      });
    }, EVERY_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** Looks for Ruby processes, unless another process of this bus has just done so. Never rejects. */
  async look(): Promise<void> {
    const { partition, leaseMs, sweep, log } = this.#parts;
    try {
      const { workers, adopted } = await partition.run('watch_ruby', { leaseMs, everyMs: EVERY_MS / 2 });
      if (adopted > 0) log.error({ adopted }, `a Ruby process still writes here: ${STOP_IT}`);
      if (workers > 0)
        log.error({ workers }, `a Ruby worker still takes jobs here, and forgets them: ${STOP_IT}`);
      if (workers + adopted > 0) await sweep(workers);
    } catch (error) {
      log.warn(failureOf(error), 'cannot look for Ruby processes; trying again');
    }
  }
}
