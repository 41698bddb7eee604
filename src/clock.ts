import timers from 'node:timers/promises';

/**
 * The clocks of this host: wall time for people, and monotonic time for durations. The scripts that run in Redis use
 * the clock of Redis, which decides which job is due and which worker is dead.
 */
export const clock = {
  /** Milliseconds since the Unix epoch. */
  wallMs: (): number => Date.now(),
  /** Milliseconds since an arbitrary start; never decreases. */
  monotonicMs: (): number => performance.now(),
};

/** Resolves after `ms`, or at once when `signal` is aborted; never rejects. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await timers.setTimeout(ms, undefined, { signal }).catch(() => {});
}

/**
 * Returns a function that calls `act` at most once every `ms`, and otherwise does nothing. The first call of `act`
 * comes no earlier than `ms` after `sinceMs` (monotonic). By default `sinceMs` is now.
 */
export function atMostEvery<Values extends unknown[]>(
  ms: number,
  act: (...values: Values) => void,
  sinceMs = clock.monotonicMs(),
): (...values: Values) => void {
  let calledAtMs = sinceMs;
  return (...values) => {
    if (clock.monotonicMs() - calledAtMs < ms) return;
    calledAtMs = clock.monotonicMs();
    act(...values);
  };
}

const MIN_PAUSE_MS = 2;

/**
 * Pauses after work, to leave time to other work: for as long as the work has taken, but at most `maxMs`. `beganMs`
 * (monotonic) is when the work began. After less than MIN_PAUSE_MS of work, there is no pause.
 */
export async function pauseAfter(beganMs: number, maxMs: number): Promise<void> {
  const pauseMs = Math.min(clock.monotonicMs() - beganMs, maxMs);
  if (pauseMs >= MIN_PAUSE_MS) await sleep(pauseMs);
}

/** Resolves or rejects as `work` does. If `work` takes longer than `ms`, resolves with undefined. */
export function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const over = new AbortController();
  const late = sleep(ms, over.signal).then(() => undefined);
  return Promise.race([work, late]).finally(() => over.abort());
}
