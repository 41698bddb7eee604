import { Encoder } from '@msgpack/msgpack';
import { Packed, packedUtf8 } from '../store/packed.ts';

/** The kinds of change that an event may tell of. */
export const EVENT_TYPES = ['create', 'update', 'delete', 'noop'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface Event {
  topic: string;
  type: EventType;
  url: string;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** Any JSON value; undefined and null: none. */
  data?: unknown;
}

/** How deep data may be nested. */
export const DEEPEST_DATA = 64;
const encoder = new Encoder({ maxDepth: DEEPEST_DATA });
/** For data with bigints, which the other throws at; it writes numbers above 32 bits as floats, so not for all data. */
const bigintEncoder = new Encoder({ maxDepth: DEEPEST_DATA, useBigInt64: true });

/** `[code, {…}]` with the code of an event, then the first of its five short keys. */
const HEAD = '\x92\xa1e\x85\xa1t';
const NIL = new Packed('\xc0');

/**
 * The MessagePack form of an event's data; what `ROUTEMASTER_MAX_EVENT_DATA` limits. Bigints have 64 bits at most.
 * Throws if the data is nested deeper than DEEPEST_DATA.
 */
export function packData(data: unknown): Packed {
  if (data === null || data === undefined) return NIL;
  let bytes: Uint8Array;
  try {
    bytes = encoder.encode(data);
  } catch {
    bytes = bigintEncoder.encode(data);
  }
  return new Packed(textOf(bytes));
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/**
 * The bytes that Redis stores for an event: MessagePack `["e", {t, o, y, u, d}]`, byte for byte as Routemaster packs it.
 * Written by hand, because the shape is fixed and this is the hot path: less than a third of the time of a general encoder.
 */
export function packEvent({ timestamp, topic, type, url }: Omit<Event, 'data'>, data: Packed): Packed {
  const bytes = packedUtf8(url);
  // Joined at once: what + puts together stays in pieces, which in a bulk publish outlive the young generation.
  return new Packed(
    [
      HEAD,
      packTime(timestamp),
      packNames(topic, type),
      stringHead(bytes.length),
      bytes,
      '\xa1d',
      data.text,
    ].join(''),
  );
}

const MOST_NAMES = 1000;
const packedNames = new Map<EventType, Map<string, string>>(EVENT_TYPES.map((type) => [type, new Map()]));

/** The topic and the type, up to where the URL begins: there are few, and each is packed once. */
function packNames(topic: string, type: EventType): string {
  const known = packedNames.get(type) as Map<string, string>;
  let packed = known.get(topic);
  if (packed === undefined) {
    if (known.size >= MOST_NAMES) known.clear();
    packed = `\xa1o${stringHead(topic.length)}${topic}\xa1y${stringHead(type.length)}${type}\xa1u`;
    known.set(topic, packed);
  }
  return packed;
}

function stringHead(bytes: number): string {
  if (bytes < 32) return String.fromCharCode(0xa0 | bytes);
  if (bytes < 0x100) return `\xd9${String.fromCharCode(bytes)}`;
  return `\xda${String.fromCharCode(bytes >> 8, bytes & 0xff)}`;
}

/** Times of today take the 64-bit form; others are rare and left to the library. */
function packTime(value: number): string {
  if (value <= 0xffffffff) return textOf(encoder.encode(value));
  return `\xcf${fourBytes(Math.floor(value / 2 ** 32))}${fourBytes(value % 2 ** 32)}`;
}

function fourBytes(value: number): string {
  return String.fromCharCode(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}
