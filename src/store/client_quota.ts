/**
 * Maximum percentage of Redis's memory that one client may fill with each of these: its idempotency keys, its nonces,
 * its triggers, and the open keys of its joins.
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
 * Returns how many keys (idempotency keys or nonces) a client may store in one burst: `max`, or less if Redis has
 * little memory. Twice this number of keys, at `keyBytes` each, must fit into MAX_PERCENT of `redisMaxBytes`, because
 * the client may store as many keys again before the first ones have expired.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
