import { MsgpackJson } from './msgpack_json.ts';

/** What a subscriber reads for each stored key, in this order. */
const MEMBERS = { o: 'topic', y: 'type', u: 'url', t: 't', d: 'data' } as const;
const ORDER = Object.keys(MEMBERS) as (keyof typeof MEMBERS)[];

/**
 * A stored event as the JSON text that subscribers get: `{"topic","type","url","t"}` and `"data"` where there is some.
 * Throws RangeError if the bytes are no event.
 */
export function eventJson(packed: Buffer): string {
  const reader = new MsgpackJson(packed);
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
