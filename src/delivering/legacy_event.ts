import { hash } from 'node:crypto';
import { decode } from '@msgpack/msgpack';

export const OPENING_BRACE = 0x7b;
const ID_LENGTH = 16;

/**
 * Options for decoding. 64-bit integers become BigInts, which keep all digits. Strings stay bytes until `plain` decodes
 * them. Extension types are refused. The decoder would refuse the key `__proto__`. So these options put a full stop
 * before each key, and `plain` removes it.
 */
const OPTIONS = {
  useBigInt64: true,
  rawStrings: true,
  maxExtLength: 0,
  keyDecoder: {
    canBeCached: () => true,
    decode: (bytes: Uint8Array, start: number, length: number) =>
      `.${textOf(bytes.subarray(start, start + length))}`,
  },
  /**
   * Called with each key of a map. Puts a full stop before the key, because the decoder refuses the key `__proto__`. A
   * string already has the full stop, from `keyDecoder`.
   */
  mapKeyConverter(key: unknown): string {
    if (typeof key === 'string') return key;
    if (key instanceof Uint8Array) return `.${textOf(key)}`;
    if (typeof key === 'object' && key !== null) throw new RangeError('a key is a list or map');
    return `.${key}`;
  },
};

/**
 * Returns the JSON of one event or several, from the bytes that a batch stores (`stored`). Bytes that are JSON are
 * returned unchanged. All other bytes are a legacy event, which a Ruby Routemaster stored. Throws RangeError if a
 * legacy event cannot be decoded.
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
  return JSON.stringify(event);
}

function decodeFields(stored: Buffer): Record<string, unknown> {
  let event: unknown;
  try {
    event = plain(decode(stored, OPTIONS));
  } catch (cause) {
    throw new RangeError(`an event cannot be decoded: ${(cause as Error).message}`, { cause });
  }
  if (!Array.isArray(event) || event.length !== 2 || event[0] !== 'e' || !isRecord(event[1]))
    throw new RangeError('an event is the array ["e", {…}]');
  return event[1];
}

/** Converts a decoded value, so that JSON.stringify writes it as it was published. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return textOf(value);
  if (typeof value === 'bigint') return JSON.rawJSON(String(value));
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.slice(1), plain(each)]));
}

/** Returns the text of these bytes. Bytes that are no UTF-8 become U+FFFD. */
function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
