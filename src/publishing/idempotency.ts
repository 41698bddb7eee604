import { hash } from 'node:crypto';
import { clientQuota } from '../store/client_quota.ts';

/** The part of a publication that Redis remembers under its idempotency key. */
export interface Idempotency {
  /** Digest of the idempotency key and its client. It is part of the key in Redis. */
  digest: string;
  /** Digest of the topic and the body. */
  fingerprint: Buffer;
}

/** Bytes of Redis that an idempotency key takes. */
const KEY_BYTES = 180;

/**
 * Characters of a digest: 132 bits in URL-safe Base64. That rules out collisions, and takes little memory for
 * each key.
 */
const DIGEST_LENGTH = 22;
const FINGERPRINT_BYTES = 16;

/**
 * Returns the digests that identify a publication. `body` is the text as received: the events that the bus makes
 * of it have new ids and timestamps in every attempt. NUL separates the parts, because tokens and topics cannot
 * contain it.
 */
export function idempotency(client: string, key: string, topic: string, body: string): Idempotency {
  return {
    digest: hash('sha256', `${client}\0${key}`, 'base64url').slice(0, DIGEST_LENGTH),
    fingerprint: hash('sha256', `${topic}\0${body}`, 'buffer').subarray(0, FINGERPRINT_BYTES),
  };
}

/** Returns how many idempotency keys a client may use in the window for which they are remembered. */
export function maxClientKeys(max: number, redisMaxBytes: number): number {
  return clientQuota(max, KEY_BYTES, redisMaxBytes);
}
