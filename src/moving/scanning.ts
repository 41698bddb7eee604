import { type FoundKey, foundKey } from '../store/found_key.ts';
import type { Partition } from '../store/partition.ts';

const COUNT = 1000;

/**
 * Finds the keys of partitions that share a Redis. Yields one list of keys for each SCAN command. A key may come twice.
 */
export async function* scanned(partitions: readonly [Partition, ...Partition[]]): AsyncGenerator<FoundKey[]> {
  const prefixes = partitions.map(({ prefix }) => prefix);
  const pattern = `${common(prefixes).replace(/[\\*?[\]]/g, '\\$&')}*`;
  const scan = partitions[0].scan((redis, _, cursor) => redis.scan(cursor, 'MATCH', pattern, 'COUNT', COUNT));
  for await (const keys of scan)
    yield keys.flatMap((key) => prefixes.flatMap((prefix) => foundKey(key, prefix) ?? []));
}

/** Returns the longest text with which every prefix begins. */
function common([first = '', ...others]: readonly string[]): string {
  let length = first.length;
  for (const other of others) while (!other.startsWith(first.slice(0, length))) length--;
  return first.slice(0, length);
}
