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
 * Returns how many keys (idempotency keys or nonces) one client may store in a short time: `max`, or fewer if Redis has
 * little memory. The client may store as many again before these keys expire. So up to twice as many are stored, and
 * these, of `keyBytes` each, must fit into MAX_PERCENT of `redisMaxBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
