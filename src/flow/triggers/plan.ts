/**
 * If a trigger is at most this late, it fires for its stored due time and for all later due times up to now. If it is
 * later, `catch_up` decides: that setting is for outages, not for short restarts of the workers.
 */
export const PROMPT_MS = 10_000;
/** A trigger with `catch_up: all` fires for at most this many missed due times, the newest ones. */
export const MAX_CAUGHT_UP = 1000;
/**
 * Maximum due times for which one script call fires a trigger. It must be at least 11, because a trigger that is due
 * every second can have 11 due times within PROMPT_MS (10 s). If some of these were left over, they could be older than
 * PROMPT_MS at the next call, and `catch_up: none` would skip them.
 */
const MAX_DUE_TIMES_PER_CALL = 100;

/** The times of a schedule, in ms since the Unix epoch. */
export interface Times {
  next(afterMs: number): number | undefined;
  previous(beforeMs: number): number | undefined;
  /** Counts the times of the schedule that are later than `afterMs`, but not later than `upToMs`. */
  count(afterMs: number, upToMs: number): number;
}

export const CATCH_UPS = ['none', 'latest', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/**
 * What one script call does for a trigger: it fires for the due times `times`, the oldest first, and skips `missed` due
 * times for good.
 */
export interface Plan {
  times: number[];
  missed: number;
  /**
   * The next due time, to be stored. It lies in the past if there are more due times than one call may fire for.
   * Undefined if no due time follows.
   */
  nextMs: number | undefined;
}

interface Due {
  times: Times;
  catchUp: CatchUp;
  /** The stored due time. The trigger has fired for all earlier due times, or has missed them. */
  dueMs: number;
  nowMs: number;
}

/**
 * Decides for which due times a trigger fires now. A trigger that is late can have several. If they are too many for
 * one script call, the next call goes on with `nextMs`, the first one that is left.
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
