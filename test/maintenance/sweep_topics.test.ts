import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());

test('a sweep ends topics that an earlier release left unused, and enters topics with their owners', async () => {
  const { redis: raw, keys } = redis.store;
  await bus.publish('a', 'widgets', ['e1']);
  await raw.sadd(keys.topics(), 'unused');
  await raw.del(keys.topics_owned('shop'));
  await raw.sadd(keys.topics_owned('mill'), 'widgets', 'gone');
  await bus.subscribe('bob', { topics: ['unclaimed'] });
  assert.deepEqual(await sweep(redis.store), []);
  assert.deepEqual((await raw.smembers(keys.topics())).sort(), ['unclaimed', 'widgets']);
  assert.deepEqual(await raw.smembers(keys.topics_owned('shop')), ['widgets']);
  assert.equal(await raw.exists(keys.topics_owned('mill')), 0);
});

test('a topic that another program has written keeps no other from its repair', async () => {
  const { redis: raw, keys } = redis.store;
  await raw.sadd(keys.topics(), 'bad', 'unused');
  await raw.set(keys.topic('bad'), 'not a hash');
  await bus.publish('a', 'widgets', ['e1']);
  await raw.del(keys.topics_owned('shop'));
  await assert.rejects(sweep(redis.store), /WRONGTYPE/);
  assert.deepEqual((await raw.smembers(keys.topics())).sort(), ['bad', 'widgets']);
  assert.deepEqual(await raw.smembers(keys.topics_owned('shop')), ['widgets']);
});
