/**
 * Maximum percentage of Redis's memory that one client may take for each of four things: its idempotency keys, its
 * nonce uses, its triggers, and the open keys of its joins (such as orders that are not complete yet).
 */
const MAX_PERCENT = 5;

/** Returns `percent` per cent of `redisMaxBytes`, or a number that means no limit if `redisMaxBytes` is 0. */
export function shareOfBytes(percent: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((redisMaxBytes * percent) / 100);
}

/**
 * Returns MAX_PERCENT of the memory limit of Redis (`redisMaxBytes`), or a number that means no limit if
 * `redisMaxBytes` is 0.
 */
export function clientBytes(redisMaxBytes: number): number {
  return shareOfBytes(MAX_PERCENT, redisMaxBytes);
}

/**
 * Returns how many idempotency keys, or nonce uses, a client may store before it must wait for its quota to refill:
 * `max`, or fewer if Redis has little memory. A quota refills before the stored keys have expired, so a client may have
 * stored two quotas. Both together must fit in MAX_PERCENT of `redisMaxBytes`; each key takes `keyBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
