import { BusError } from '../errors.ts';

const LONGEST_KEY = 255;
// A string of RFC 9651 (structured fields), of visible characters only; of escapes there are \" and \\.
const QUOTED = /^"((?:[!#-[\]-~]|\\["\\])*)"$/;
// As many clients write it: no string, and nothing that could be taken for a part of one, or for several headers made one.
const BARE = /^[!#-+\--:<-[\]-~]+$/;

/**
 * The key that an Idempotency-Key header names (draft-ietf-httpapi-idempotency-key-header), the same whether it is quoted or
 * not; undefined if there is no such header. Throws bad_header.
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
