import { failureOf, type Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

const EVERY_MS = 10_000;

const STOP_IT = 'stop it, as docs/migrating.md says';

interface RubyWatchParts {
  partition: Partition;
  leaseMs: number;
  /** Runs a sweep. `rubyWorkers` is the number of living Ruby workers. */
  sweep: (rubyWorkers: number) => Promise<void>;
  log: Log;
}

/**
 * Watches for processes of the Ruby Routemaster that still use their Redis after the takeover. If there is one, logs an
 * error, and sweeps at once to repair what the process did. This watch is no job of `aux`, because a Ruby worker would
 * take the job.
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

  /**
   * Looks for processes of the Ruby Routemaster, and repairs what they did. Does nothing if another process of this bus
   * has looked in the last five seconds. Never rejects.
   */
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
