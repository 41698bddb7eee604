/** Maximum per cent of Redis's memory that the keys (idempotency keys or nonces) of one client may take. */
const MAX_PERCENT = 5;

/** Returns `percent` per cent of `redisMaxBytes`, or a number that means no limit if `redisMaxBytes` is 0. */
export function shareOfBytes(percent: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((redisMaxBytes * percent) / 100);
}

/** Returns how many bytes of Redis a client may take. `redisMaxBytes` is the memory limit of Redis, 0 for none. */
export function clientBytes(redisMaxBytes: number): number {
  return shareOfBytes(MAX_PERCENT, redisMaxBytes);
}

/**
 * Returns how many keys (idempotency keys or nonces) a client may store in one burst. This is `max`, or less if Redis
 * has little memory: twice this number of keys, at `keyBytes` each, must fit into MAX_PERCENT of `redisMaxBytes`. The
 * number is doubled because the client may store as many keys again before the first ones have expired.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
