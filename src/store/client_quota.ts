/** Maximum part of Redis's memory that the keys (idempotency keys or nonces) of one client may take. */
const MAX_PART = 0.05;

/**
 * Returns how many bytes of Redis a client may take: `max`, but no more than MAX_PART of `redisMaxBytes`.
 * `redisMaxBytes` is the memory limit of Redis, or 0 if it has none.
 */
export function clientBytes(max: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? max : Math.min(max, redisMaxBytes * MAX_PART);
}

/**
 * Returns the quota of one client: how many keys (idempotency keys or nonces) it may store at once. The quota is `max`,
 * or less if Redis has little memory. After a client has used up its quota, the quota becomes full again within the
 * lifetime of a key. So the client can have up to twice as many keys at a time. All of these, with `keyBytes` each, may
 * take MAX_PART of Redis's memory. `redisMaxBytes` is the memory limit of Redis, or 0 if it has none.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(Infinity, redisMaxBytes) / keyBytes / 2)));
}

/**
 * Returns `percent` per cent of `redisMaxBytes`, the memory limit of Redis. If Redis has no limit (0), returns a
 * number that no memory reaches.
 */
export function shareOfBytes(percent: number, redisMaxBytes: number): number {
  return redisMaxBytes === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((redisMaxBytes * percent) / 100);
}
