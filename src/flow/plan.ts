import type { Times } from './times.ts';

/** A due time that is late by no more than this fires, and so do all after it: processes were away for a moment. */
export const PROMPT_MS = 10_000;
/** What `catch_up: all` fires at most of what fell due. */
export const MAX_CAUGHT_UP = 1000;
/** Maximum due times of a trigger in one call of the script. At least those of `PROMPT_MS`, at one a second. */
const MAX_AT_ONCE = 100;

export const CATCH_UPS = ['none', 'latest', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/** What becomes of the due times of a trigger, from its stored one up to now. */
export interface Plan {
  /** Those that fire, oldest first. */
  times: number[];
  /** How many do not fire. */
  missed: number;
  /** The due time after these; in the past if more are to fire than in one call, undefined if none comes. */
  nextMs: number | undefined;
}

interface Due {
  times: Times;
  catchUp: CatchUp;
  /** The stored due time: the first one that is not settled. */
  dueMs: number;
  nowMs: number;
}

/** Decides what fires. Long catching up takes several calls: each goes on where the one before ended. */
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
  // Whatever takes fewer steps: what catches up in several calls misses a few times more at each.
  const firstMs =
    missed < MAX_CAUGHT_UP ? nthAfter(times, missed, dueMs) : nthLatest(times, MAX_CAUGHT_UP, nowMs);
  return firing(times, firstMs, nowMs, missed);
}

/** Fires the due times from `firstMs` up to now, or as many as one call may. */
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
