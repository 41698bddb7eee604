/** Largest part of Redis's memory that the keys of one client may take. */
const MAX_PART = 0.05;

/**
 * Returns the maximum number of keys that a client may store within their lifetime: `max`, or fewer if its
 * keys could take too much of Redis's memory. Twice the maximum can exist at a time. `redisMaxBytes` is 0 if
 * Redis has no limit.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  if (redisMaxBytes === 0) return max;
  return Math.max(1, Math.min(max, Math.floor((redisMaxBytes * MAX_PART) / keyBytes / 2)));
}
