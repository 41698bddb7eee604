import type { Packed } from '../store/packed.ts';
import { MsgpackJson, PLAIN } from './msgpack_json.ts';

/** What a subscriber reads for each stored key, in this order. */
const MEMBERS = { o: 'topic', y: 'type', u: 'url', t: 't', d: 'data' } as const;
const ORDER = Object.keys(MEMBERS) as (keyof typeof MEMBERS)[];

/** How packEvent begins an event of today: `["e", {"t":` and a 64-bit time. */
const HEAD = '\x92\xa1e\x85\xa1t\xcf';
const HEAD_AND_TIME = HEAD.length + 8;
const DATA = '\xa1d';

/** Stored events, one after the other, as the JSON text that subscribers get: `{"topic","type","url","t"}`, and `"data"` if there is some. */
class EventsJson extends MsgpackJson {
  /** The next event. Throws RangeError if the next bytes are none. */
  next(): string {
    return this.#written() ?? this.#any();
  }

  /** Whether there is another. */
  get more(): boolean {
    return this.position < this.latin1.length;
  }

  /**
   * The same for nearly all events: those that packEvent wrote, in plain ASCII but for their data. Undefined for others.
   * Without data it takes a fifth of the time that reading any MessagePack does, which was a quarter of a worker's CPU at full batches.
   */
  #written(): string | undefined {
    const { latin1, position } = this;
    if (!latin1.startsWith(HEAD, position)) return undefined;
    const timeAt = position + HEAD.length;
    const timeMs = this.unsignedAt(timeAt, 4) * 2 ** 32 + this.unsignedAt(timeAt + 4, 4);
    const values: string[] = [];
    let at = position + HEAD_AND_TIME;
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
    this.skip(at + DATA.length - position);
    const json = `{"topic":"${topic}","type":"${type}","url":"${url}","t":${timeMs}`;
    const data = this.value();
    return data === 'null' ? `${json}}` : `${json},"data":${data}}`;
  }

  #any(): string {
    if (this.arrayLength() !== 2) throw new RangeError('an event is an array of two');
    const code = this.string();
    if (code !== 'e') throw new RangeError(`an event has the code e, and not ${JSON.stringify(code)}`);
    const values: Record<string, string> = {};
    for (let left = this.mapLength(); left > 0; left--) values[this.string()] = this.value();
    let json = '{';
    for (const key of ORDER) {
      const value = values[key];
      if (value === undefined || (key === 'd' && value === 'null')) continue;
      json += `${json === '{' ? '' : ','}"${MEMBERS[key]}":${value}`;
    }
    return `${json}}`;
  }
}

/** A stored event as subscribers get it. Throws RangeError if the bytes are no event. */
export function eventJson(packed: Packed): string {
  const events = new EventsJson(packed);
  const json = events.next();
  if (events.more) throw new RangeError(`an event ends at byte ${events.position}, and more follows`);
  return json;
}

/**
 * The body of a delivery: a JSON array of so many events, in their order. `pieces`: each holds whole ones. Throws RangeError if the
 * bytes are not that, or it is longer than a string can be.
 */
export function batchJson(pieces: readonly Packed[], count: number): string {
  const all: string[] = [];
  for (const piece of pieces) {
    const events = new EventsJson(piece);
    while (events.more) all.push(events.next());
  }
  if (all.length !== count) throw new RangeError(`a batch of ${count} events holds ${all.length}`);
  return `[${all.join(',')}]`;
}
