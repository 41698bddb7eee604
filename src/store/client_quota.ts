/**
 * Maximum percentage of Redis's memory for the idempotency keys of one client. The same maximum is for its nonces, for
 * its triggers, and for what its joins store about incomplete keys (orders, for example).
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
 * Returns the quota of a client: how many keys (idempotency keys or nonces) it may store in a short time. The quota
 * refills before the keys expire, so Redis may hold the keys of two full quotas. The result is `max`, or fewer so that
 * these keys, of `keyBytes` each, fit into MAX_PERCENT of `redisMaxBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
