import { decode, encode } from '@msgpack/msgpack';

export type Tags = Readonly<Record<string, string>>;

/** A field of the `counters` hash: MessagePack `[name, [[tag, value], … sorted by tag]]`, as the Ruby Routemaster writes it. */
export function packField(name: string, tags: Tags): Buffer {
  const pairs = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(encode([name, pairs]));
}

/** The name and the tags of a field; undefined if it is not one. */
export function unpackField(field: Buffer): { name: string; tags: Tags } | undefined {
  try {
    const [name, pairs] = decode(field) as [unknown, [unknown, unknown][]];
    return {
      name: text(name),
      tags: Object.fromEntries(pairs.map(([tag, value]) => [text(tag), text(value)])),
    };
  } catch {
    return undefined;
  }
}

/** Ruby packs a string of unknown encoding as bytes. Throws TypeError for what is no text. */
function text(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  throw new TypeError('not text');
}
