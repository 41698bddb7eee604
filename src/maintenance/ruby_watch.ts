import { sleep } from '../clock.ts';
import { failureOf, type Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

const EVERY_MS = 10_000;

const STOP_IT = 'stop it, as docs/migrating.md says';

interface RubyWatchParts {
  partition: Partition;
  leaseMs: number;
  sweep: (rubyWorkers: number) => Promise<void>;
  log: Log;
}

/**
 * Watches, until `signal` is aborted, for processes of the Ruby Routemaster that still use this Redis after the
 * takeover. If there is one, logs an error, and sweeps to repair what the process did. The watch is no periodic job,
 * because a Ruby worker would take such a job from the queue and lose it.
 */
export async function watchRuby(parts: RubyWatchParts, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(EVERY_MS, signal);
    if (!signal.aborted) await lookForRuby(parts);
  }
}

/** Looks for Ruby processes once, unless another process has looked in the last five seconds. Never rejects. */
export async function lookForRuby({ partition, leaseMs, sweep, log }: RubyWatchParts): Promise<void> {
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
