import { setTimeout as pause } from 'node:timers/promises';

/**
 * Waits until `condition` gives something truthy, and gives that. Throws after `timeoutMs`, naming `what` was awaited
 * and the last error of the condition if it threw. The time is ample: on a busy machine a process may take ten seconds to
 * start, and only a test that fails waits that long.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 30_000, everyMs = 5, what = condition.toString() }: UntilOptions = {},
): Promise<NonNullable<T>> {
  const endAt = performance.now() + timeoutMs;
  let cause: unknown;
  do {
    try {
      const value = await condition();
      if (value) return value;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await pause(everyMs);
  } while (performance.now() < endAt);
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
}

export interface UntilOptions {
  timeoutMs?: number;
  everyMs?: number;
  /** What is awaited, for the message. Default: the condition's own source. */
  what?: string;
}
