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
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}
