import assert from 'node:assert/strict';
import { beforeEach, describe } from 'node:test';
import { breaks, bus } from '../../../harness/scripts/breaking.ts';
import { CLIENT, JoinCalls, joinEvent } from '../../../harness/scripts/join_calls.ts';
import { joinToken } from '../../../src/ids.ts';

const joins = new JoinCalls(bus);
const TOKEN = joinToken('order', CLIENT);

describe('joins', () => {
  /** Opens the keys A and B. */
  beforeEach(async () => {
    const sources = [{ topic: 'paid', count: 2 }];
    await joins.put('order', { sources, on_expiry: { topic: 'stuck', type: 'noop' } });
    await bus.publishAll('j', ['paid', 'pub', [joinEvent('paid', 'A'), joinEvent('paid', 'B')]]);
    const { grants } = await bus.acquire(['w5', 'w6']);
    const worker = grants.find(({ job }) => job === 'j1')?.worker ?? '';
    assert.equal((await joins.count('order', worker, 'j1')).outcome, 'counted');
  });

  breaks(
    'are among all joins',
    ({ redis, keys }) => redis.srem(keys.joins(), TOKEN),
    `join_incomplete ${TOKEN}`,
  );

  breaks(
    'are among those of their client',
    ({ redis, keys }) => redis.del(keys.joins_of(CLIENT)),
    `join_incomplete ${TOKEN}`,
  );

  breaks(
    'are subscribers',
    ({ redis, keys }) => redis.srem(keys.subscribers(), TOKEN),
    `join_incomplete ${TOKEN}`,
  );

  breaks(
    'have the topics that they publish to',
    ({ redis, keys }) => redis.hdel(keys.joins_into(), 'stuck'),
    `join_incomplete ${TOKEN}`,
  );

  breaks(
    'have the topics that no join has any more taken away',
    async ({ redis, keys }) => {
      await redis.hset(keys.joins_into(), 'widgets', 'join:gone:shop');
      await redis.hset(keys.joins_into(), 'gadgets', TOKEN);
    },
    'entry_without_join join:gone:shop',
    `entry_without_join ${TOKEN}`,
  );

  breaks(
    'that are gone are nowhere',
    async ({ redis, keys }) => {
      await redis.sadd(keys.joins(), 'join:gone:shop');
      await redis.sadd(keys.joins_of('carol'), 'lost');
      await redis.zadd(keys.joins_expiring(), 1, 'join:late:shop');
    },
    'join_incomplete join:gone:shop',
    'entry_without_join join:lost:carol',
    'entry_without_join join:late:shop',
  );

  breaks(
    'expire while they have open keys',
    ({ redis, keys }) => redis.del(keys.joins_expiring()),
    `join_unscheduled ${TOKEN}`,
  );

  breaks(
    'do not expire while they have none',
    ({ redis, keys }) => redis.del(keys.open_keys(TOKEN), keys.open_keys_since(TOKEN)),
    `join_unscheduled ${TOKEN}`,
  );

  breaks(
    'have open keys in order',
    ({ redis, keys }) => redis.zrem(keys.open_keys_since(TOKEN), 'A'),
    `open_key_astray ${TOKEN}`,
  );

  breaks(
    'have open keys in the right order',
    ({ redis, keys }) => redis.zincrby(keys.open_keys_since(TOKEN), 1, 'A'),
    `open_key_astray ${TOKEN}`,
  );

  breaks(
    'have open keys with a record',
    ({ redis, keys }) => redis.hdel(keys.open_keys(TOKEN), 'A'),
    `open_key_astray ${TOKEN}`,
  );

  breaks(
    'have open keys with a record that can be read',
    ({ redis, keys }) => redis.hset(keys.open_keys(TOKEN), 'A', 'what?'),
    `open_key_astray ${TOKEN}`,
  );

  breaks(
    'that are gone have no open keys',
    async ({ redis, keys }) => {
      await redis.hset(keys.open_keys('join:gone:shop'), 'A', 'x');
      await redis.zadd(keys.open_keys_since('join:gone:shop'), 1, 'A');
    },
    'open_key_astray join:gone:shop',
  );
});
