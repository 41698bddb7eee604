import { hash } from 'node:crypto';
import { BusError } from '../errors.ts';
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

/** Number of characters of a digest in URL-safe Base64. Its 132 bits make collisions practically impossible. */
const DIGEST_LENGTH = 22;
const FINGERPRINT_BYTES = 16;

/**
 * Returns the digests that identify a publication. `body` is the text as received, because parsed events have new ids
 * and timestamps at each attempt. A `\0` separates the two parts of each digested text. No token or topic contains
 * `\0`, so different parts never make the same text.
 */
export function idempotency(client: string, key: string, topic: string, body: string): Idempotency {
  return {
    digest: hash('sha256', `${client}\0${key}`, 'base64url').slice(0, DIGEST_LENGTH),
    fingerprint: hash('sha256', `${topic}\0${body}`, 'buffer').subarray(0, FINGERPRINT_BYTES),
  };
}

/**
 * Returns how many idempotency keys a client may use before it must wait: `max`, or fewer if Redis has little memory.
 */
export function maxClientKeys(max: number, redisMaxBytes: number): number {
  return clientQuota(max, KEY_BYTES, redisMaxBytes);
}

const LONGEST_KEY = 255;
// Matches a string of RFC 9651 (structured fields) that has only visible characters and the escapes \" and \\.
const QUOTED = /^"((?:[!#-[\]-~]|\\["\\])*)"$/;
// Matches an idempotency key without quotes, as many clients send it. All visible characters are allowed except:
// - `"` and `\`, because a key with one of them is a broken quoted key;
// - a comma, because Node has then joined several headers;
// - a semicolon, because parameters of RFC 9651 follow it.
const BARE = /^[!#-+\--:<-[\]-~]+$/;

/**
 * Returns the key in an Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header), with or without quotes;
 * undefined without a header. Throws bad_header if the header has no valid key.
 */
export function readIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = QUOTED.exec(header)?.[1]?.replace(/\\(.)/g, '$1') ?? BARE.exec(header)?.[0];
  if (key !== undefined && key.length >= 1 && key.length <= LONGEST_KEY) return key;
  throw new BusError(
    'bad_header',
    `Idempotency-Key must be one string of 1 to ${LONGEST_KEY} visible ASCII characters, such as "8e03978e-40d5"`,
  );
}
