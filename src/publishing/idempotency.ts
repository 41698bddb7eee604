import { hash } from 'node:crypto';

/** How a publication with an idempotency key is known again. */
export interface Idempotency {
  /** Of the key and its client: names what is remembered. */
  digest: string;
  /** Of what is published under the key. */
  fingerprint: Buffer;
}

/** 132 bits, in URL-safe Base64: nobody comes by another's by chance, and a key costs no more memory than it must. */
const DIGEST_LENGTH = 22;
const FINGERPRINT_BYTES = 16;

/**
 * `body` as it came: the events are no measure, since those without a timestamp get another one each time. Tokens and names of
 * topics have no NUL, so that it parts them from what follows.
 */
export function idempotency(client: string, key: string, topic: string, body: string): Idempotency {
  return {
    digest: hash('sha256', `${client}\0${key}`, 'base64url').slice(0, DIGEST_LENGTH),
    fingerprint: hash('sha256', `${topic}\0${body}`, 'buffer').subarray(0, FINGERPRINT_BYTES),
  };
}
