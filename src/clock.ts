import timers from 'node:timers/promises';

/**
 * The host's clocks, told apart: wall time is for what people read, monotonic time for how long something took.
 * Neither decides what is due or who is dead; that is Redis's clock, inside the scripts.
 */
export const clock = {
  /** Milliseconds since the Unix epoch, by this host. */
  wallMs: (): number => Date.now(),
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonicMs: (): number => performance.now(),
};

/** Resolves after `ms`, or at once when `signal` is aborted; never rejects. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  // Only an abort rejects.
  await timers.setTimeout(ms, undefined, { signal }).catch(() => {});
}
