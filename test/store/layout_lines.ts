import { decode } from '@msgpack/msgpack';
import type { Commands } from '../../src/store/partition.ts';

/** Returns all of Redis in one step: key, type, time to live (ms), elements, for every key. */
const READ_ALL = `#!lua flags=no-writes,allow-oom
local read = {
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  string = function(key) return { redis.call('GET', key) } end,
  stream = function(key)
    local fields = {}
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      for _, each in ipairs(entry[2]) do fields[#fields + 1] = each end
    end
    return fields
  end,
}
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local type = redis.call('TYPE', key).ok
  all[#all + 1] = key
  all[#all + 1] = type
  all[#all + 1] = redis.call('PTTL', key)
  all[#all + 1] = read[type](key)
end
return all`;

const PAIRED = new Set(['hash', 'zset', 'stream']);
/** Keys whose values are random bytes. */
const RANDOM = /^(name_key|digest:keys)$/;
/** What is there or not, depending on how fast the machine is. Jobs of `aux` have the keys of those of `main`. */
const BY_SPEED = /^(jobs:\w+(:\w+)?:aux\b|shares:|digest:quota:|subscriber:\S+ hash slow:)/;

/**
 * Returns the layout of what Redis stores, as lines such as `joins:since:join:order:<26> zset B: <ms>`: the key, its
 * type, and an element without what is random or depends on time. Elements that differ only in that share a line.
 * `(expires)` follows the type of a key that has a time to live. Left out is what only a machine of some speed has.
 */
export async function layoutLines(redis: Commands): Promise<string[]> {
  const flat = (await redis.callBuffer('EVAL', READ_ALL, 0)) as unknown[];
  const lines = new Set<string>();
  for (let i = 0; i < flat.length; i += 4) {
    const [name, type, ttlMs, elements] = flat.slice(i, i + 4) as [Buffer, Buffer, number, Buffer[]];
    const key = String(name);
    const head = `${shownKey(key)} ${type}${ttlMs === -1 ? '' : ' (expires)'}`;
    const step = PAIRED.has(String(type)) ? 2 : 1;
    for (let k = 0; k < elements.length; k += step) {
      const parts = elements.slice(k, k + step).map((each) => shownElement(key, each));
      lines.add(`${head} ${parts.join(': ')}`);
    }
  }
  return [...lines].filter((line) => !BY_SPEED.test(line));
}

/** Subscribers and topics get a history only if they have figures when a sample is made, so their names are left out. */
const shownKey = (key: string) =>
  general(key).replace(/^(history:\w+):(subscriber|topic):.*/, '$1:$2:{name}');

/** Returns text as it is, MessagePack as JSON, and of other bytes only their number. */
function shownElement(key: string, bytes: Buffer): string {
  const count = `<${bytes.length} bytes>`;
  if (RANDOM.test(key) && bytes.length === 32) return count;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!/[^\n\x20-\uffff]/.test(text)) return general(text);
  } catch {}
  try {
    const value = decode(bytes);
    if (Array.isArray(value)) return `msgpack ${general(JSON.stringify(value))}`;
  } catch {}
  return count;
}

/**
 * Replaces, in this order, signing keys, times in µs and ms, the hash of a public name, random texts, and other
 * numbers. Of random texts, and of numbers that are filled up with zeros, the length is left, so that a longer UID makes
 * another line.
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
