import type { Partition } from '../../src/store/partition.ts';

/** Returns each key that begins with ARGV[1], its dump, and its time to live (ms; 0 if it has none). */
const DUMP = `
local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  all[#all + 1] = key
  all[#all + 1] = redis.call('DUMP', key)
  all[#all + 1] = math.max(0, redis.call('PTTL', key))
end
return all`;

/** Deletes all keys that begin with ARGV[1], and restores those that follow. */
const RESTORE = `
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end
for i = 2, #ARGV, 3 do redis.call('RESTORE', ARGV[i], ARGV[i + 2], ARGV[i + 1]) end`;

/** Returns all that a partition has. */
export async function dump({ redis, prefix }: Partition): Promise<(Buffer | number)[]> {
  return (await redis.callBuffer('EVAL', DUMP, 0, prefix)) as (Buffer | number)[];
}

/** Gives a partition what it had when it was dumped. As in a Redis that took over, its `run_id` was another then. */
export async function restore({ redis, prefix, keys }: Partition, dumps: (Buffer | number)[]): Promise<void> {
  await redis.call('EVAL', RESTORE, 0, prefix, ...dumps);
  await redis.set(keys.batches_run(), 'lost', 'XX');
  if (await redis.hexists(keys.outboxes_sent(), 'run')) await redis.hset(keys.outboxes_sent(), 'run', 'lost');
}
