import { BusError } from '../errors.ts';

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
