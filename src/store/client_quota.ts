/**
 * Maximum percentage of Redis's memory that one client may fill with each of these: its idempotency keys, its nonces,
 * its triggers, and what its joins store about keys (such as the id of an order) that are still incomplete.
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
 * little memory. The client may store as many again before these keys expire. So twice as many keys, of `keyBytes`
 * each, must fit into MAX_PERCENT of `redisMaxBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
