import { hash } from 'node:crypto';
import { PackedReader } from './packed_json.ts';

export const OPENING_BRACE = 0x7b;
const ID_LENGTH = 16;

/** The first bytes of a legacy event: an array of two items, of which the first is `e`. */
const HEAD = Buffer.from([0x92, 0xa1, 0x65]);

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
  const { t, o, y, u, d } = readFields(stored);
  const id = hash('sha256', stored, 'base64url').slice(0, ID_LENGTH);
  const event = { id: `"${id}"`, topic: o, type: y, url: u, t, data: d === 'null' ? undefined : d };
  const members = Object.entries(event).filter(([, json]) => json !== undefined);
  return `{${members.map(([name, json]) => `"${name}":${json}`)}}`;
}

/** Returns the fields of a legacy event as JSON. */
function readFields(stored: Buffer): Record<string, string | undefined> {
  if (!stored.subarray(0, HEAD.length).equals(HEAD)) throw new RangeError('an event is the array ["e", {…}]');
  const reader = new PackedReader(stored.subarray(HEAD.length));
  const fields = reader.members();
  if (fields === undefined || !reader.isAtEnd) throw new RangeError('an event is the array ["e", {…}]');
  return Object.fromEntries(fields);
}
