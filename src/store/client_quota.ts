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
 * Returns the quota of a client: how many keys (idempotency keys or nonce uses) it may store at once. A used-up quota
 * refills within the time for which Redis keeps each key. So the client can store a second quota before the keys of the
 * first have expired. The quota is `max`, or less if two quotas of keys with `keyBytes` each would take more than
 * MAX_PERCENT of `redisMaxBytes`.
 */
export function clientQuota(max: number, keyBytes: number, redisMaxBytes: number): number {
  return Math.max(1, Math.min(max, Math.floor(clientBytes(redisMaxBytes) / keyBytes / 2)));
}
