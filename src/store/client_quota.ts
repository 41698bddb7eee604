/**
 * Maximum percentage of Redis's memory that the idempotency keys of one client may take. The same maximum applies to
 * its nonce uses, to its triggers, and to what its joins store about incomplete keys (orders, for example).
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
 * Returns the quota of a client: how many keys (idempotency keys or nonce uses) it may store in a short time. The quota
 * refills before the keys expire, so Redis may hold the keys of two full quotas. The quota is `max`, or less if two
 * quotas of keys with `keyBytes` each would exceed MAX_PERCENT of `redisMaxBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
