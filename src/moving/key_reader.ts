import { slicesOf } from '../chunks.ts';
import type { FoundKey } from '../store/found_key.ts';
import { LAYOUT } from '../store/keys.ts';
import { pairsOf } from '../store/replies.ts';

/**
 * An element of a key: `[value]` of a string, `[item]` of a list or set, `[field, value]` of a hash, `[member, score]`
 * of a sorted set, or the id of a stream entry with its fields and values.
 */
export type Element = readonly [Buffer, ...Buffer[]];

type Command = [string, ...(string | number)[]];

const SCAN = { set: 'SSCAN', hash: 'HSCAN', zset: 'ZSCAN' } as const;

/** Makes the commands that read a key in pieces, and decodes the replies. copying.ts sends the commands. */
export class KeyReader {
  readonly found: FoundKey;
  readonly type: (typeof LAYOUT)[keyof typeof LAYOUT]['type'];
  /** Number of elements that one command asks for. SSCAN, HSCAN and ZSCAN may return some more or fewer. */
  readonly #count: number;
  /** Where the next command begins: an index, a stream id or a cursor. Undefined when the whole key has been read. */
  #place: string | undefined;

  constructor(found: FoundKey, count: number) {
    this.found = found;
    this.type = LAYOUT[found.name].type;
    this.#count = count;
    this.#place = this.type === 'stream' ? '-' : '0';
  }

  get isDone(): boolean {
    return this.#place === undefined;
  }

  get command(): Command {
    const { key } = this.found;
    const place = this.#place ?? '';
    if (this.type === 'string') return ['GET', key];
    if (this.type === 'list') return ['LRANGE', key, place, Number(place) + this.#count - 1];
    if (this.type === 'stream') return ['XRANGE', key, place, '+', 'COUNT', this.#count];
    return [SCAN[this.type], key, place, 'COUNT', this.#count];
  }

  /** Returns the elements in `reply`, the reply to `command`. From then on `command` reads the next elements. */
  take(reply: unknown): Element[] {
    switch (this.type) {
      case 'string':
        this.#place = undefined;
        return reply === null ? [] : [[reply as Buffer]];
      case 'list':
        return this.#takeItems(reply as Buffer[]);
      case 'stream':
        return this.#takeEntries(reply as [Buffer, Buffer[]][]);
      default:
        return this.#takeScan(reply as [Buffer, Buffer[]]);
    }
  }

  #takeItems(items: Buffer[]): Element[] {
    this.#place = items.length < this.#count ? undefined : String(Number(this.#place) + items.length);
    return items.map((item) => [item]);
  }

  #takeEntries(entries: [Buffer, Buffer[]][]): Element[] {
    const last = entries.at(-1);
    this.#place = last && entries.length === this.#count ? `(${last[0]}` : undefined;
    return entries.map(([id, fields]) => [id, ...fields]);
  }

  #takeScan([cursor, flat]: [Buffer, Buffer[]]): Element[] {
    const next = cursor.toString();
    this.#place = next === '0' ? undefined : next;
    if (this.type === 'set') return flat.map((member) => [member]);
    return pairsOf(flat);
  }
}

/** Maximum elements that one command writes. Redis serves nobody else while the command runs. */
const MAX_ELEMENTS_PER_WRITE = 1000;

/** Returns the commands that add elements to a key of this type. */
export function writing(
  type: KeyReader['type'],
  key: string,
  elements: readonly Element[],
): (string | Buffer)[][] {
  const slices: (string | Buffer)[][] = [];
  if (type === 'stream') return elements.map(([id, ...fields]) => ['XADD', key, id, ...fields]);
  const verb = { string: 'SET', list: 'RPUSH', set: 'SADD', hash: 'HSET', zset: 'ZADD' }[type];
  for (const slice of slicesOf(elements, MAX_ELEMENTS_PER_WRITE)) {
    // ZADD wants the score before the member.
    const flat = slice.flatMap((element) => (type === 'zset' ? element.toReversed() : element));
    slices.push([verb, key, ...flat]);
  }
  return slices;
}
