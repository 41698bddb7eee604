/** Largest part of Redis's memory that the keys of one client may take. */
const MAX_PART = 0.05;

/**
 * Returns how many bytes of Redis a client may take: `max`, but at most MAX_PART of `redisMaxBytes`, which is
 * 0 if Redis has no limit.
 */
export function clientBytes(max: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? max : Math.min(max, redisMaxBytes * MAX_PART);
}

/**
 * Returns the maximum number of keys that a client may store within their lifetime: `max`, or fewer, so
 * that its keys take at most MAX_PART of Redis's memory. Twice the maximum can exist at a time.
 * `redisMaxBytes` is 0 if Redis has no limit.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(Infinity, redisMaxBytes) / keyBytes / 2)));
}

/**
 * Returns `percent` per cent of `redisMaxBytes`; a number that no memory reaches if Redis has no limit (0).
 */
export function shareOfBytes(percent: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((redisMaxBytes * percent) / 100);
}
