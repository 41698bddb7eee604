/** The largest part of the memory of Redis that the keys of one client may take. */
const MAX_PART = 0.05;

/**
 * Returns how many keys of this size a client may have Redis remember in the time for which each is remembered: `max`,
 * but fewer if twice as many, which can be remembered at a time, would take too much of a Redis of `redisMaxBytes` (0
 * if it has no limit).
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  if (redisMaxBytes === 0) return max;
  return Math.max(1, Math.min(max, Math.floor((redisMaxBytes * MAX_PART) / keyBytes / 2)));
}
