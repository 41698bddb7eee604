import type { Commands } from '../../src/store/partition.ts';

/** A key of Redis with all that it holds. */
export interface StoredKey {
  readonly key: string;
  readonly type: string;
  /** The time to live; -1 if the key does not expire. */
  readonly ttlMs: number;
  /**
   * The elements. Those of a hash and of a sorted set are pairs (of a field and its value, of a member and its score).
   * Those of a stream are pairs too: the fields of all its entries.
   */
  readonly items: Buffer[];
  /** A stream as DUMP writes it, with the ids of its entries; undefined for other types. */
  readonly dump: Buffer | undefined;
}

/** Returns key, type, time to live (ms), elements and, of a stream, the dump, for every key. */
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
    return fields, redis.call('DUMP', key)
  end,
}
local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local type = redis.call('TYPE', key).ok
  local items, dump = read[type](key)
  all[#all + 1] = { key, type, redis.call('PTTL', key), items, dump }
end
return all`;

type Row = [key: Buffer, type: Buffer, ttlMs: number, items: Buffer[], dump?: Buffer];

/** Reads all keys that begin with `prefix`, in one step: nothing changes meanwhile. */
export async function storedKeys(redis: Commands, prefix = ''): Promise<StoredKey[]> {
  const rows = (await redis.callBuffer('EVAL', READ_ALL, 0, prefix)) as Row[];
  return rows.map(([key, type, ttlMs, items, dump]) => {
    return { key: String(key), type: String(type), ttlMs, items, dump };
  });
}
