import { hash } from 'node:crypto';
import { decode } from '@msgpack/msgpack';

export const OPENING_BRACE = 0x7b;
const ID_LENGTH = 16;

/**
 * Options for decoding. 64-bit integers become BigInts, which keep all digits. Keys become text. Extension types are
 * refused.
 */
const OPTIONS = { useBigInt64: true, maxExtLength: 0, mapKeyConverter: String };

/**
 * Returns the JSON text of a stored piece of a batch. A piece in JSON is returned unchanged. Any other piece is a
 * legacy event, which a Ruby Routemaster stored. Throws RangeError if a legacy event cannot be decoded.
 */
export function eventJson(stored: Buffer): Buffer {
  return stored[0] === OPENING_BRACE ? stored : Buffer.from(legacyEventJson(stored));
}

/**
 * Decodes an event that a Ruby Routemaster stored: MessagePack `["e", {t, o, y, u, d}]` (time, topic, type, URL, data).
 * Such an event has no id. It gets a digest of its bytes as its id, which is the same at each attempt.
 */
function legacyEventJson(stored: Buffer): string {
  const fields = decodeFields(stored);
  const event = {
    id: hash('sha256', stored, 'base64url').slice(0, ID_LENGTH),
    topic: fields.o,
    type: fields.y,
    url: fields.u,
    t: fields.t,
    data: fields.d ?? undefined,
  };
  return JSON.stringify(event, asJson);
}

function decodeFields(stored: Buffer): Record<string, unknown> {
  let event: unknown;
  try {
    // Ruby packed some strings as binary. `decode` returns each of them as an object of the class of its argument.
    // `asJson` makes text of a Uint8Array. A Buffer would be lost: JSON.stringify makes a list of numbers of it first.
    event = decode(new Uint8Array(stored), OPTIONS);
  } catch (cause) {
    throw new RangeError(`an event cannot be decoded: ${(cause as Error).message}`, { cause });
  }
  if (!Array.isArray(event) || event.length !== 2 || event[0] !== 'e' || !isRecord(event[1]))
    throw new RangeError('an event is the array ["e", {…}]');
  return event[1];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function asJson(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return JSON.rawJSON(String(value));
  return value instanceof Uint8Array ? Buffer.from(value).toString() : value;
}
