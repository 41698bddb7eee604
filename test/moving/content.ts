import { ROWS } from '../../src/moving/rows.ts';
import { type FoundKey, foundKey } from '../../src/store/found_key.ts';
import { type KeyName, LAYOUT } from '../../src/store/keys.ts';
import type { Commands, Partition } from '../../src/store/partition.ts';

/** The elements of a key, each as a text. For sets, hashes and sorted sets they are in alphabetical order. */
async function elementsOf(redis: Commands, { key, name }: FoundKey): Promise<string[]> {
  const pairs = (flat: string[]) =>
    flat.flatMap((each, i) => (i % 2 ? [] : [`${each} ${flat[i + 1]}`])).sort();
  switch (LAYOUT[name].type) {
    case 'string':
      return [(await redis.getBuffer(key))?.toString('latin1') ?? ''];
    case 'list':
      return (await redis.lrangeBuffer(key, 0, -1)).map((each) => each.toString('latin1'));
    case 'set':
      return (await redis.smembersBuffer(key)).map((each) => each.toString('latin1')).sort();
    case 'zset': {
      const flat = await redis.zrangeBuffer(key, '0', '-1', 'WITHSCORES');
      return pairs(flat.map((each) => each.toString('latin1')));
    }
    case 'hash': {
      const [, flat] = (await redis.callBuffer('HSCAN', key, '0', 'COUNT', 1_000_000)) as [Buffer, Buffer[]];
      return pairs(flat.map((each) => each.toString('latin1')));
    }
    default:
      return (await redis.xrange(key, '-', '+')).map((each) => JSON.stringify(each));
  }
}

type Content = Map<string, { name: KeyName; parts: string[][] }>;

/** Returns, by key without its prefix, the contents of the key in each of these partitions that have it. */
export async function contentOf(partitions: readonly Partition[]): Promise<Content> {
  const content: Content = new Map();
  for (const { redis, prefix } of partitions)
    for (const key of await redis.keys(`${prefix}*`)) {
      const found = foundKey(key, prefix);
      if (!found) continue;
      const short = key.slice(prefix.length);
      const known = content.get(short) ?? { name: found.name, parts: [] };
      content.set(short, known);
      known.parts.push(await elementsOf(redis, found));
    }
  return content;
}

/**
 * Keys that are not compared: with several partitions their sums or fields differ, or only running processes need
 * them.
 */
const OTHERWISE = new Set<KeyName>(['topic', 'delayed_held', 'deliveries_total', 'schema', 'move']);
const FORGOTTEN = /^jobs:[a-z:]*aux/;
/** Keys of workers. A move copies only workers that hold a delivery. */
const OF_WORKERS = new Set<KeyName>(['workers', 'workers_main', 'leases', 'jobs_pending_index']);

/**
 * Returns the differences between source and target. Each key must have the same elements, in one partition or divided
 * among several. Elements of lists and streams must be in the same order within each partition.
 */
export async function differences(source: Partition, target: readonly Partition[]): Promise<string[]> {
  const [before, after] = [await contentOf([source]), await contentOf(target)];
  const wrong: string[] = [];
  for (const [key, { name, parts }] of before) {
    const row = ROWS[name];
    if ('stays' in row || OTHERWISE.has(name) || FORGOTTEN.test(key)) continue;
    const [was = []] = parts;
    const are = after.get(key)?.parts ?? [];
    if (isCopied(name)) {
      if (are.length !== target.length) wrong.push(`${key} is not everywhere`);
    } else if (OF_WORKERS.has(name)) {
      if (!are.flat().every((each) => was.includes(each))) wrong.push(`${key} has others`);
    } else if (!isDivided(was, are, LAYOUT[name].type === 'list')) wrong.push(`${key} differs`);
  }
  for (const [key, { name }] of after)
    if (!before.has(key) && !OTHERWISE.has(name)) wrong.push(`${key} is new`);
  return wrong;
}

function isCopied(name: KeyName): boolean {
  const row = ROWS[name];
  return 'whole' in row && row.whole('') === 'all';
}

function isDivided(was: readonly string[], are: readonly string[][], isOrdered: boolean): boolean {
  const together = are.flat();
  // The names and scopes of a client are in each partition.
  const all = new Set(together);
  if (all.size !== new Set(was).size || together.length < was.length) return false;
  if (!was.every((each) => all.has(each))) return false;
  if (!isOrdered) return true;
  const places = new Map(was.map((each, index) => [each, index]));
  return are.every((part) => {
    const order = part.map((each) => places.get(each) ?? -1);
    return order.every((place, index) => index === 0 || place > (order[index - 1] ?? -1)) || are.length === 1;
  });
}
