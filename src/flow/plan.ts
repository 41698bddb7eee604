import type { Times } from './times.ts';

/**
 * A due time that is at most this late always fires, whatever `catch_up` says. `catch_up` is for outages, and a short
 * restart of the workers is not an outage.
 */
export const PROMPT_MS = 10_000;
/** Maximum due times that fire with `catch_up: all`. If more were missed, only the newest of them fire. */
export const MAX_CAUGHT_UP = 1000;
/**
 * Maximum due times of one trigger in a script call. There are at most eleven due times within PROMPT_MS, and one call
 * must be able to fire all of them. If some were left for a later call, they might be too late to fire by then.
 */
const MAX_AT_ONCE = 100;

export const CATCH_UPS = ['none', 'latest', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/**
 * Says which due times of a trigger fire, among those from the stored due time up to now. The stored due time is the
 * first that has neither fired nor been missed.
 */
export interface Plan {
  /** The due times that fire, oldest first. */
  times: number[];
  /** Number of due times that never fire, because `catch_up` leaves them out or more than MAX_CAUGHT_UP were missed. */
  missed: number;
  /**
   * The due time to store next. It is in the past if one call cannot fire all. Undefined if the schedule has no
   * further time.
   */
  nextMs: number | undefined;
}

interface Due {
  times: Times;
  catchUp: CatchUp;
  /** The stored due time of the trigger: the first that has neither fired nor been missed. */
  dueMs: number;
  nowMs: number;
}

/**
 * Decides which due times of a trigger fire now. If many were missed, they fire in several calls. Each call begins at
 * the due time that the call before has stored (`nextMs`).
 */
export function plan({ times, catchUp, dueMs, nowMs }: Due): Plan {
  if (nowMs - dueMs <= PROMPT_MS) return firing(times, dueMs, nowMs, 0);
  const due = 1 + times.count(dueMs, nowMs);
  if (catchUp === 'none') return { times: [], missed: due, nextMs: times.next(nowMs) };
  if (catchUp === 'latest') {
    const latestMs = times.previous(nowMs + 1) ?? dueMs;
    return { times: [latestMs], missed: due - 1, nextMs: times.next(nowMs) };
  }
  if (due <= MAX_CAUGHT_UP) return firing(times, dueMs, nowMs, 0);
  const missed = due - MAX_CAUGHT_UP;
  // Finds the first due time that fires, by going forward from the stored due time or backward from now, whichever
  // takes fewer steps. Forward is shorter when earlier calls have begun to catch up: only a few more due times were
  // missed since then.
  const firstMs =
    missed < MAX_CAUGHT_UP ? nthAfter(times, missed, dueMs) : nthLatest(times, MAX_CAUGHT_UP, nowMs);
  return firing(times, firstMs, nowMs, missed);
}

/** Returns the plan that fires the due times from `firstMs` up to now, but at most as many as one call may fire. */
function firing(times: Times, firstMs: number, nowMs: number, missed: number): Plan {
  const all = [firstMs];
  let nextMs = times.next(firstMs);
  while (nextMs !== undefined && nextMs <= nowMs && all.length < MAX_AT_ONCE) {
    all.push(nextMs);
    nextMs = times.next(nextMs);
  }
  return { times: all, missed, nextMs };
}

function nthAfter(times: Times, n: number, afterMs: number): number {
  let atMs = afterMs;
  for (let i = 0; i < n; i++) atMs = times.next(atMs) ?? atMs;
  return atMs;
}

function nthLatest(times: Times, n: number, nowMs: number): number {
  let atMs = nowMs + 1;
  for (let i = 0; i < n; i++) atMs = times.previous(atMs) ?? atMs;
  return atMs;
}
