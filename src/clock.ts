import timers from 'node:timers/promises';

/**
 * The host's clocks. Wall time is for people to read, monotonic time for measuring durations. Neither decides which job is due
 * or which worker is dead: scripts do that by Redis's clock.
 */
export const clock = {
  /** Milliseconds since the Unix epoch, by this host. */
  wallMs: (): number => Date.now(),
  /** Milliseconds since an arbitrary start; never goes back. */
  monotonicMs: (): number => performance.now(),
};

/** Resolves after `ms`, or at once when `signal` is aborted; never rejects. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  // Only an abort rejects.
  await timers.setTimeout(ms, undefined, { signal }).catch(() => {});
}
