import { type Keyspace, LAYOUT } from '../../src/store/keys.ts';
import type { Commands } from '../../src/store/partition.ts';
import { type StoredKey, storedKeys } from '../redis/stored_keys.ts';

/** A source of reads: a store, or an image of one in memory. */
export interface Readable {
  readonly redis: Commands;
  readonly keys: Keyspace;
}

/**
 * Returns an image of a partition at one moment, read in one call. It has only commands that read, and answers them
 * as Redis would.
 */
export async function imageOf(store: Readable): Promise<Readable & { image: Image }> {
  const image = new Image(await storedKeys(store.redis, prefixOf(store)));
  return { redis: image as unknown as Commands, keys: store.keys, image };
}

function prefixOf({ keys }: Readable): string {
  return keys.schema().slice(0, -LAYOUT.schema.pattern.length);
}

interface Value {
  type: string;
  /** The elements. Those of a hash or sorted set are pairs. A stream has one: its dump. */
  items: Buffer[];
  /** The pairs as an object, built at the first lookup. */
  pairs?: Record<string, string>;
}

const isPlace = (_: unknown, index: number) => index % 2 === 0;

export class Image {
  readonly #values = new Map<string, Value>();

  constructor(stored: StoredKey[]) {
    for (const { key, type, items, dump } of stored)
      this.#values.set(key, { type, items: dump ? [dump] : items });
  }

  /**
   * A text that is the same if and only if the content is. The order in which Redis lists members does not
   * matter.
   */
  get content(): string {
    const lines = Array.from(this.#values, ([key, { type, items }]) => {
      const texts = items.map((item) => item.toString('latin1'));
      const members =
        type === 'hash' ? texts.flatMap((each, i) => (i % 2 ? [] : [`${each} ${texts[i + 1]}`])) : texts;
      if (type === 'hash' || type === 'set') members.sort();
      return JSON.stringify([key, type, members]);
    });
    return lines.sort().join('\n');
  }

  async keys(pattern: string): Promise<string[]> {
    const source = pattern
      .replace(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.');
    const shape = new RegExp(`^${source}$`, 's');
    return [...this.#values.keys()].filter((key) => shape.test(key));
  }

  async type(key: string): Promise<string> {
    return this.#values.get(key)?.type ?? 'none';
  }

  async exists(key: string): Promise<number> {
    return Number(this.#values.has(key));
  }

  async get(key: string): Promise<string | null> {
    const [value] = this.#items(key);
    return value === undefined ? null : String(value);
  }

  async lrangeBuffer(key: string, from: number | string, to: number | string): Promise<Buffer[]> {
    return slice(this.#items(key), from, to);
  }

  async lrange(key: string, from: number | string, to: number | string): Promise<string[]> {
    return (await this.lrangeBuffer(key, from, to)).map(String);
  }

  async llen(key: string): Promise<number> {
    return this.#items(key).length;
  }

  async smembersBuffer(key: string): Promise<Buffer[]> {
    return this.#items(key);
  }

  async smembers(key: string): Promise<string[]> {
    return this.#items(key).map(String);
  }

  async sismember(key: string, member: string | Buffer): Promise<number> {
    const wanted = Buffer.from(member as string);
    return Number(this.#items(key).some((each) => each.equals(wanted)));
  }

  async hgetall(key: string): Promise<Record<string, string>> {
    return { ...this.#pairs(key) };
  }

  async hgetallBuffer(key: string): Promise<Record<string, Buffer>> {
    const items = this.#items(key);
    return Object.fromEntries(
      items.flatMap((item, i) => (i % 2 ? [] : [[String(item), items[i + 1] as Buffer]])),
    );
  }

  async hget(key: string, field: string): Promise<string | null> {
    return this.#pairs(key)[field] ?? null;
  }

  async hmget(key: string, ...fields: string[]): Promise<(string | null)[]> {
    return fields.map((field) => this.#pairs(key)[field] ?? null);
  }

  async hkeys(key: string): Promise<string[]> {
    return Object.keys(this.#pairs(key));
  }

  async zrangeBuffer(key: string, from: string, to: string, scores?: 'WITHSCORES'): Promise<Buffer[]> {
    const items = this.#items(key);
    if (scores) return slice(items, Number(from) * 2, Number(to) * 2 + 1);
    return slice(items.filter(isPlace), from, to);
  }

  async zrange(key: string, from: string, to: string, scores?: 'WITHSCORES'): Promise<string[]> {
    return (await this.zrangeBuffer(key, from, to, scores)).map(String);
  }

  async zscore(key: string, member: string): Promise<string | null> {
    return this.#pairs(key)[member] ?? null;
  }

  async zcard(key: string): Promise<number> {
    return this.#items(key).length / 2;
  }

  #pairs(key: string): Record<string, string> {
    const value = this.#values.get(key);
    if (!value) return {};
    value.pairs ??= pairsOf(value.items.map(String));
    return value.pairs;
  }

  #items(key: string): Buffer[] {
    return this.#values.get(key)?.items ?? [];
  }
}

/** Slices a list by the indexes of Redis: `to` is included, and -1 means the last element. */
function slice<T>(all: T[], from: number | string, to: number | string): T[] {
  return all.slice(Number(from), Number(to) === -1 ? undefined : Number(to) + 1);
}

function pairsOf(flat: string[]): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) pairs[flat[i] ?? ''] = flat[i + 1] ?? '';
  return pairs;
}
