/**
 * Maximum percentage of Redis's memory that the idempotency keys of one client may take. The same maximum applies to
 * its nonce uses, to its triggers, and to the open keys of its joins, such as orders that are not complete yet.
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
 * Returns the quota of a client: how many keys (idempotency keys or nonce uses) it may store before it must wait. The
 * quota is `max`, or less if Redis has little memory: two quotas of keys with `keyBytes` each must fit in MAX_PERCENT
 * of `redisMaxBytes`. A client may store two quotas, because the first refills before its keys have expired.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
