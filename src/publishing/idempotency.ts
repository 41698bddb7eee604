import { hash } from 'node:crypto';
import { clientQuota } from '../store/client_quota.ts';

/** The two digests by which Redis remembers a publication that has an idempotency key. */
export interface Idempotency {
  /** Digest of the idempotency key and its client. It is part of the name of a Redis key. */
  digest: string;
  /** Digest of the topic and the body. */
  fingerprint: Buffer;
}

/** Bytes that Redis takes to remember an idempotency key. */
const KEY_BYTES = 180;

/** Length of a digest: 132 bits in URL-safe Base64 rule out collisions, and take little memory for each key. */
const DIGEST_LENGTH = 22;
const FINGERPRINT_BYTES = 16;

/**
 * Returns the digests that identify a publication. `body` is the text as received: parsed events would differ between
 * attempts, because the bus gives them new ids and timestamps. A NUL separates the texts, because tokens and topics
 * cannot contain NUL.
 */
export function idempotency(client: string, key: string, topic: string, body: string): Idempotency {
  return {
    digest: hash('sha256', `${client}\0${key}`, 'base64url').slice(0, DIGEST_LENGTH),
    fingerprint: hash('sha256', `${topic}\0${body}`, 'buffer').subarray(0, FINGERPRINT_BYTES),
  };
}

/**
 * Returns how many idempotency keys a client may use in one burst: `max`, or fewer if Redis has little memory. Redis
 * remembers up to twice as many (see client_quota.lua).
 */
export function maxClientKeys(max: number, redisMaxBytes: number): number {
  return clientQuota(max, KEY_BYTES, redisMaxBytes);
}
