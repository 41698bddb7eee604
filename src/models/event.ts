import { Encoder } from '@msgpack/msgpack';

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

/** `[code, {…}]` with the code of an event, then the first of its five short keys. */
const HEAD = Buffer.from([0x92, 0xa1, 0x65, 0x85, 0xa1, 0x74]);
const NIL = Buffer.from([0xc0]);
/** How deep data may be nested. */
export const DEEPEST_DATA = 64;
const encoder = new Encoder({ maxDepth: DEEPEST_DATA });
/** For data with bigints, which the other throws at; it writes numbers above 32 bits as floats, so not for all data. */
const bigintEncoder = new Encoder({ maxDepth: DEEPEST_DATA, useBigInt64: true });

/**
 * The MessagePack form of an event's data; what `ROUTEMASTER_MAX_EVENT_DATA` limits. Bigints have 64 bits at most.
 * Throws if the data is nested deeper than DEEPEST_DATA.
 */
export function packData(data: unknown): Buffer {
  if (data === null || data === undefined) return NIL;
  let bytes: Uint8Array;
  try {
    bytes = encoder.encode(data);
  } catch {
    bytes = bigintEncoder.encode(data);
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * The bytes that Redis stores for an event: MessagePack `["e", {t, o, y, u, d}]`, byte for byte as Routemaster packs it.
 * Written by hand, because the shape is fixed and this is the hot path: a third of the time of a general encoder.
 */
export function packEvent(event: Omit<Event, 'data'>, packedData: Buffer): Buffer {
  const urlBytes = Buffer.byteLength(event.url);
  const size =
    HEAD.length + 9 + 2 + 5 + event.topic.length + 2 + 1 + event.type.length + 2 + 5 + urlBytes + 2;
  const out = Buffer.allocUnsafe(size + packedData.length);
  let at = HEAD.copy(out, 0);
  at = writeInteger(out, at, event.timestamp);
  at = writeString(out, writeKey(out, at, 'o'), event.topic, event.topic.length);
  at = writeString(out, writeKey(out, at, 'y'), event.type, event.type.length);
  at = writeString(out, writeKey(out, at, 'u'), event.url, urlBytes);
  at = writeKey(out, at, 'd');
  at += packedData.copy(out, at);
  return out.subarray(0, at);
}

function writeKey(out: Buffer, at: number, letter: string): number {
  out[at] = 0xa1;
  out[at + 1] = letter.charCodeAt(0);
  return at + 2;
}

function writeString(out: Buffer, at: number, text: string, bytes: number): number {
  let start = at;
  if (bytes < 32) {
    out[start++] = 0xa0 | bytes;
  } else if (bytes < 0x100) {
    out[start++] = 0xd9;
    out[start++] = bytes;
  } else {
    out[start++] = 0xda;
    start = out.writeUInt16BE(bytes, start);
  }
  return start + out.write(text, start);
}

/** Times of today take the 64-bit form; others are rare and left to the library. */
function writeInteger(out: Buffer, at: number, value: number): number {
  if (value > 0xffffffff) {
    out[at] = 0xcf;
    return out.writeUInt32BE(value % 2 ** 32, out.writeUInt32BE(Math.floor(value / 2 ** 32), at + 1));
  }
  const bytes = encoder.encode(value);
  out.set(bytes, at);
  return at + bytes.length;
}
