import { setTimeout as sleep } from 'node:timers/promises';

/** Pauses between looks: short at first, then longer, because looking costs the bus under test CPU. */
const MIN_PAUSE_MS = 5;
const MAX_PAUSE_MS = 25;
/** The pause grows by a millisecond in this time. */
const GROWS_EVERY_MS = 50;

/**
 * Resolves with the first truthy value of `condition`. Throws after `timeoutMs`, with `what` in the message and
 * the condition's last error as the cause. The default time is ample, because a process may take half a
 * minute to start on a busy machine, and only a failing test waits that long.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs, what = condition.toString() }: UntilOptions = {},
): Promise<NonNullable<T>> {
  const beganAt = performance.now();
  let cause: unknown;
  do {
    try {
      const value = await condition();
      if (value) return value;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(everyMs ?? pauseAfter(performance.now() - beganAt));
  } while (performance.now() - beganAt < timeoutMs);
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
}

function pauseAfter(elapsedMs: number): number {
  return Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS + elapsedMs / GROWS_EVERY_MS);
}

export interface UntilOptions {
  timeoutMs?: number;
  /** Interval between two looks at the condition. The default is 5 ms, which grow to 25 ms in the first second. */
  everyMs?: number;
  /** The condition in words, for the message. By default the source of the condition. */
  what?: string;
}
