import type { FoundKey } from '../store/found_key.ts';
import type { Partition } from '../store/partition.ts';
import { KeyReader } from './key_reader.ts';

/**
 * Keys are copied in groups of up to GROUP_BYTES; one group is in memory at a time. A key of more than PIECE_BYTES is
 * read in pieces of that size. Redis only estimates sizes, so a group or a piece may be larger.
 */
const GROUP_BYTES = 8_000_000;
const PIECE_BYTES = 1_000_000;
/** A command with this count reads a whole key: a key of up to PIECE_BYTES has fewer elements. */
const WHOLE = 1_000_000;
/** For each type of key, the command that counts its elements (for a string, its bytes). */
export const LENGTH = {
  list: 'LLEN',
  set: 'SCARD',
  hash: 'HLEN',
  zset: 'ZCARD',
  stream: 'XLEN',
  string: 'STRLEN',
};

/** A key that is being copied. */
export interface Copied {
  reader: KeyReader;
  /** The time at which the key expires, in ms since the Unix epoch. Negative if it does not expire. */
  expiresMs: number;
}

/** Yields the keys that still exist, in groups of about GROUP_BYTES each. */
export async function* groupsOf(source: Partition, keys: readonly FoundKey[]): AsyncGenerator<Copied[]> {
  const answers = await source.command((redis) =>
    Promise.all(
      keys.map(({ key }) => Promise.all([redis.memory('USAGE', key, 'SAMPLES', 20), redis.pexpiretime(key)])),
    ),
  );
  let group: Copied[] = [];
  let sum = 0;
  for (const [index, found] of keys.entries()) {
    const [bytes, expiresMs] = answers[index] ?? [null, 0];
    // Redis gives no size for a key that has expired since the scan.
    if (bytes === null) continue;
    // A key of more than PIECE_BYTES counts as PIECE_BYTES, because only one piece of it is in memory at a time.
    sum += Math.min(bytes, PIECE_BYTES);
    if (group.length > 0 && sum > GROUP_BYTES) {
      yield group;
      [group, sum] = [[], Math.min(bytes, PIECE_BYTES)];
    }
    group.push({ reader: await readerOf(source, found, bytes), expiresMs });
  }
  if (group.length > 0) yield group;
}

async function readerOf(source: Partition, found: FoundKey, bytes: number): Promise<KeyReader> {
  const whole = new KeyReader(found, WHOLE);
  if (bytes <= PIECE_BYTES) return whole;
  const elements = Number(await source.command((redis) => redis.call(LENGTH[whole.type], found.key)));
  return new KeyReader(found, Math.max(1, Math.floor((elements * PIECE_BYTES) / bytes)));
}
