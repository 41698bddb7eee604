import { hash } from 'node:crypto';

/** What Redis remembers of a publication with an idempotency key. */
export interface Idempotency {
  /** Digest of the key and its client; part of the key in Redis. */
  digest: string;
  /** Digest of the topic and the body. */
  fingerprint: Buffer;
}

/** What a key takes in Redis, and the largest part of its memory that the keys of one client may take. */
const KEY_BYTES = 180;
const MAX_PART = 0.05;

/** 132 bits in URL-safe Base64: enough to rule out collisions, at little memory for each key. */
const DIGEST_LENGTH = 22;
const FINGERPRINT_BYTES = 16;

/**
 * Returns what identifies a publication. `body` is the text as received: its events are given new timestamps
 * each time. NUL separates the parts because tokens and topics cannot contain it.
 */
export function idempotency(client: string, key: string, topic: string, body: string): Idempotency {
  return {
    digest: hash('sha256', `${client}\0${key}`, 'base64url').slice(0, DIGEST_LENGTH),
    fingerprint: hash('sha256', `${topic}\0${body}`, 'buffer').subarray(0, FINGERPRINT_BYTES),
  };
}

/**
 * Returns how many idempotency keys a client may use in the window for which they are remembered: `max`, but
 * fewer if twice as many, which can be remembered at a time, would take too much of a Redis of `redisMaxBytes` (0
 * if it has no limit).
 */
export function maxClientKeys(max: number, redisMaxBytes: number): number {
  if (redisMaxBytes === 0) return max;
  return Math.max(1, Math.min(max, Math.floor((redisMaxBytes * MAX_PART) / KEY_BYTES / 2)));
}
