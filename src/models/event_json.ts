import { MsgpackJson, PLAIN } from './msgpack_json.ts';

/** What a subscriber reads for each stored key, in this order. */
const MEMBERS = { o: 'topic', y: 'type', u: 'url', t: 't', d: 'data' } as const;
const ORDER = Object.keys(MEMBERS) as (keyof typeof MEMBERS)[];

/** How packEvent begins an event of today: `["e", {"t":` and a 64-bit time. */
const HEAD = '\x92\xa1e\x85\xa1t\xcf';
const HEAD_AND_TIME = HEAD.length + 8;
const DATA = '\xa1d';

/**
 * A stored event as the JSON text that subscribers get: `{"topic","type","url","t"}` and `"data"` where there is some.
 * Throws RangeError if the bytes are no event.
 */
export function eventJson(packed: Buffer): string {
  const latin1 = packed.toString('latin1');
  return writtenEventJson(packed, latin1) ?? anyEventJson(packed, latin1);
}

/**
 * The same for nearly all events: those that packEvent wrote, in plain ASCII but for their data. Undefined for others.
 * Without data it takes a fifth of the time that reading any MessagePack does, which was a quarter of a worker's CPU at full batches.
 */
function writtenEventJson(packed: Buffer, latin1: string): string | undefined {
  if (!latin1.startsWith(HEAD)) return undefined;
  const timeMs = packed.readUInt32BE(HEAD.length) * 2 ** 32 + packed.readUInt32BE(HEAD.length + 4);
  const values: string[] = [];
  let at = HEAD_AND_TIME;
  for (const key of 'oyu') {
    const code = latin1.charCodeAt(at + 2);
    const long = code === 0xd9;
    if (latin1.charCodeAt(at) !== 0xa1 || latin1[at + 1] !== key || !(long || code >> 5 === 0b101))
      return undefined;
    const start = at + (long ? 4 : 3);
    at = start + (long ? latin1.charCodeAt(at + 3) : code & 0x1f);
    values.push(latin1.slice(start, at));
  }
  const [topic, type, url] = values;
  const isPlain = Number.isSafeInteger(timeMs) && PLAIN.test(`${topic}${type}${url}`);
  if (!isPlain || !latin1.startsWith(DATA, at)) return undefined;
  const reader = new MsgpackJson(packed, at + DATA.length, latin1);
  const data = reader.value();
  if (reader.position !== packed.length) return undefined;
  const json = `{"topic":"${topic}","type":"${type}","url":"${url}","t":${timeMs}`;
  return data === 'null' ? `${json}}` : `${json},"data":${data}}`;
}

function anyEventJson(packed: Buffer, latin1: string): string {
  const reader = new MsgpackJson(packed, 0, latin1);
  if (reader.arrayLength() !== 2) throw new RangeError('an event is an array of two');
  const code = reader.string();
  if (code !== 'e') throw new RangeError(`an event has the code e, and not ${JSON.stringify(code)}`);
  const values: Record<string, string> = {};
  for (let left = reader.mapLength(); left > 0; left--) values[reader.string()] = reader.value();
  let json = '{';
  for (const key of ORDER) {
    const value = values[key];
    if (value === undefined || (key === 'd' && value === 'null')) continue;
    json += `${json === '{' ? '' : ','}"${MEMBERS[key]}":${value}`;
  }
  return `${json}}`;
}

/** The body of a delivery: a JSON array of the events, in their order. */
export function batchJson(events: readonly Buffer[]): string {
  return `[${events.map(eventJson).join(',')}]`;
}
