import type { Times } from './times.ts';

/**
 * Maximum lateness of due times that all fire, whatever `catch_up` says. `catch_up` is for outages, and a short restart of
 * the workers is none.
 */
export const PROMPT_MS = 10_000;
/** Maximum due times that `catch_up: all` fires, the newest of those that fell due. */
export const MAX_CAUGHT_UP = 1000;
/**
 * Maximum due times of a trigger in one call of the script. All due times within PROMPT_MS, up to eleven, must fit:
 * the next call might judge them late.
 */
const MAX_AT_ONCE = 100;

export const CATCH_UPS = ['none', 'latest', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/** Says which due times of a trigger, from the stored one up to now, fire. */
export interface Plan {
  /** The due times that fire, oldest first. */
  times: number[];
  /** Number of due times that do not fire. */
  missed: number;
  /** The due time to store: in the past if one call cannot fire all, undefined if no further time comes. */
  nextMs: number | undefined;
}

interface Due {
  times: Times;
  catchUp: CatchUp;
  /** The stored due time: the first one that is not settled. */
  dueMs: number;
  nowMs: number;
}

/** Decides which due times fire. A long catch-up takes several calls: each goes on where the one before ended. */
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
  // Goes forward or backward, whichever takes fewer steps. Forward, if a catch-up has taken some calls already: since
  // the call before only a few further due times were missed.
  const firstMs =
    missed < MAX_CAUGHT_UP ? nthAfter(times, missed, dueMs) : nthLatest(times, MAX_CAUGHT_UP, nowMs);
  return firing(times, firstMs, nowMs, missed);
}

/** Returns the plan that fires the due times from `firstMs` up to now, or as many of them as one call may. */
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
