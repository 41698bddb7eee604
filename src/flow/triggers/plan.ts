import type { Times } from './times.ts';

/**
 * If the stored due time of a trigger is at most this old, the trigger fires for it and for all later ones up to now.
 * If it is older, the setting `catch_up` decides. That setting is for outages, not for short restarts of the workers.
 */
export const PROMPT_MS = 10_000;
/**
 * Maximum due times for which a trigger with `catch_up: all` fires. If more were missed, it fires for the newest of
 * them.
 */
export const MAX_CAUGHT_UP = 1000;
/**
 * Maximum due times for which one script call fires a trigger. The due times within PROMPT_MS, up to 11, must fit into
 * one call. Otherwise those left over could be older than PROMPT_MS at the next call, and `catch_up: none` would skip
 * them.
 */
const MAX_DUE_TIMES_PER_CALL = 100;

export const CATCH_UPS = ['none', 'latest', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/**
 * The due times (oldest first) for which one script call fires a trigger, and the number of due times for which it will
 * never fire.
 */
export interface Plan {
  times: number[];
  missed: number;
  /**
   * The due time that is stored for the next call. If there are too many due times for one call, this is the first of
   * those left over, and lies in the past. Undefined if no due time follows.
   */
  nextMs: number | undefined;
}

interface Due {
  times: Times;
  catchUp: CatchUp;
  /** The stored due time. All earlier due times are done: the trigger has fired for them, or missed them. */
  dueMs: number;
  nowMs: number;
}

/**
 * Decides for which due times a trigger fires now. If there are too many for one script call, the next call goes on at
 * `nextMs`, which is stored as the due time.
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
  let firstMs = nowMs + 1;
  for (let n = 0; n < MAX_CAUGHT_UP; n++) firstMs = times.previous(firstMs) ?? firstMs;
  return firing(times, firstMs, nowMs, due - MAX_CAUGHT_UP);
}

function firing(times: Times, firstMs: number, nowMs: number, missed: number): Plan {
  const all = [firstMs];
  let nextMs = times.next(firstMs);
  while (nextMs !== undefined && nextMs <= nowMs && all.length < MAX_DUE_TIMES_PER_CALL) {
    all.push(nextMs);
    nextMs = times.next(nextMs);
  }
  return { times: all, missed, nextMs };
}
