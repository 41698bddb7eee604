import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Resolves with the first truthy value of `condition`. Throws after `timeoutMs`, with `what` in the message and the condition's
 * last error as the cause. The default time is ample, because a process may take ten seconds to start on a busy machine, and
 * only a failing test waits that long.
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
    await sleep(everyMs);
  } while (performance.now() < endAt);
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
}

export interface UntilOptions {
  timeoutMs?: number;
  everyMs?: number;
  /** The condition in words, for the message. By default the source of the condition. */
  what?: string;
}
