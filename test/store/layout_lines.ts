import { decode } from '@msgpack/msgpack';
import { storedKeys } from '../../harness/redis/stored_keys.ts';
import type { Commands } from '../../src/store/partition.ts';

const PAIRED = new Set(['hash', 'zset', 'stream']);
/** Keys whose values are random bytes. */
const RANDOM = /^(name_key|digest:keys)$/;
/**
 * Matches what Redis has or lacks, depending on how fast the machine is. The jobs of `aux` have keys like the jobs of
 * `main`.
 */
const BY_SPEED = /^(jobs:\w+(:\w+)?:aux\b|shares:|digest:quota:|subscriber:\S+ hash slow:)/;

/**
 * Returns the layout of what Redis stores, as lines such as `joins:since:join:order:<26> zset B: <ms>`: the key, its
 * type, and an element without what is random or depends on time. Elements that differ only in that share a line.
 * `(expires)` follows the type of a key that has a time to live. Left out is what only a machine of some speed has.
 */
export async function layoutLines(redis: Commands): Promise<string[]> {
  const lines = new Set<string>();
  for (const { key, type, ttlMs, items } of await storedKeys(redis)) {
    const head = `${shownKey(key)} ${type}${ttlMs === -1 ? '' : ' (expires)'}`;
    const step = PAIRED.has(type) ? 2 : 1;
    for (let k = 0; k < items.length; k += step) {
      const parts = items.slice(k, k + step).map((each) => shownElement(key, each));
      lines.add(`${head} ${parts.join(': ')}`);
    }
  }
  return [...lines].filter((line) => !BY_SPEED.test(line));
}

/**
 * Subscribers and topics get a history only if they have figures when a sample is made, so their names are left out.
 */
const shownKey = (key: string) =>
  general(key).replace(/^(history:\w+):(subscriber|topic):.*/, '$1:$2:{name}');

/** Returns text as it is, MessagePack as JSON, and of other bytes only their number. */
function shownElement(key: string, bytes: Buffer): string {
  const count = `<${bytes.length} bytes>`;
  if (RANDOM.test(key) && bytes.length === 32) return count;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!/[^\n\t\x20-\uffff]/.test(text)) return general(text);
  } catch {}
  try {
    const value = decode(bytes);
    if (Array.isArray(value)) return `msgpack ${general(JSON.stringify(value))}`;
  } catch {}
  return count;
}

/**
 * Replaces, in this order, signing keys, times in µs and ms, the hash of a public name, random texts, and other
 * numbers. Of random texts, and of numbers that are filled up with zeros, the length is left, so that a longer UID
 * makes another line.
 */
const REPLACED =
  /(?<signing>whs(?:ec|k)_)[\w+/=]+|(?<us>\b[12]\d{15}\b)|(?<ms>\b[12]\d{12}(?:\.\d+)?\b)|(?<=\w\.)(?<hash>[0-9a-f]{16}\b)|(?<random>[\w-]{19,})|\d+(?:\.\d+)?/g;

function general(text: string): string {
  const replace = (all: string, ...rest: unknown[]) => {
    const { signing, us, ms, hash, random } = rest.at(-1) as Record<string, string | undefined>;
    if (signing) return `${signing}<key>`;
    if (us) return '<µs>';
    if (ms) return '<ms>';
    return hash || random || /^0\d/.test(all) ? `<${all.length}>` : '#';
  };
  return text.replaceAll('\n', '\\n').replace(REPLACED, replace);
}
