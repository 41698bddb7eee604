import { type Log, reasonOf } from '../log.ts';
import type { Partition } from '../store/partition.ts';

const EVERY_MS = 5000;

const STOP_IT = 'stop it, as docs/migrating.md says';

interface RubyWatchParts {
  partition: Partition;
  leaseMs: number;
  /** Runs a sweep while so many Ruby workers live; 0 if none does. */
  sweep: (rubyWorkers: number) => Promise<void>;
  log: Log;
}

/**
 * Looks for processes of the Ruby Routemaster that still use a Redis that was taken over. It logs an error that says
 * so, and has a sweep repair at once what they do. It is not a job of `aux`, since a Ruby worker would take that.
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

  /** Looks once. Of all processes, one at a time does. Never rejects. */
  async look(): Promise<void> {
    const { partition, leaseMs, sweep, log } = this.#parts;
    try {
      const { workers, adopted } = await partition.run('watch_ruby', { leaseMs, everyMs: EVERY_MS / 2 });
      if (adopted > 0) log.error({ adopted }, `a Ruby process still writes here: ${STOP_IT}`);
      if (workers > 0)
        log.error({ workers }, `a Ruby worker still takes jobs here, and forgets them: ${STOP_IT}`);
      if (workers + adopted > 0) await sweep(workers);
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'cannot look for Ruby processes; trying again');
    }
  }
}
