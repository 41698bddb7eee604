import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { BootError } from '../../src/errors.ts';
import { fixPartitionCount } from '../../src/store/partition_count.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const fix = (partitions: number, redisPrefix = '') => {
  const { control } = Partitions.on(redis.store.redis, { prefix: redisPrefix, partitions });
  return fixPartitionCount(control, { redisPrefix, partitions });
};
const refused = (settling: Promise<void>, message: RegExp) =>
  assert.rejects(settling, (error: Error) => error instanceof BootError && message.test(error.message));

beforeEach(() => redis.flush());

describe('the number of partitions', () => {
  test('is stored at the first boot, and must be the same at each', async () => {
    await fix(4, 'shop:');
    assert.deepEqual(await redis.store.redis.keys('*'), ['shop:partitions']);
    await fix(4, 'shop:');
    await refused(fix(16, 'shop:'), /has 4 partitions.* is 16.*docs\/scale\.md/);
    await refused(fix(1, 'shop:'), /has 4 partitions.* is 1\./);
    await fix(16);
  });

  test('is the one that was stored first, if processes start with several', async () => {
    const outcomes = await Promise.allSettled([fix(4), fix(8), fix(4), fix(8)]);
    const count = await redis.store.redis.get('partitions');
    assert.deepEqual(
      outcomes.map(({ status }) => status === 'fulfilled'),
      count === '4' ? [true, false, true, false] : [false, true, false, true],
    );
  });

  test('is not stored if it is one, so that the layout stays as it was', async () => {
    await fix(1);
    assert.deepEqual(await redis.store.redis.keys('*'), []);
  });

  test('cannot be several beside a bus that has one', async () => {
    await redis.store.redis.set('shop:schema', '2');
    await refused(fix(4, 'shop:'), /has a bus with one partition.*docs\/scale\.md/);
    assert.equal(await redis.store.redis.exists('shop:partitions'), 0);
    await fix(4, 'other:');
  });

  test('cannot be several in the Redis of a Ruby Routemaster', async () => {
    for (const key of ['subscribers', 'topics']) {
      await redis.flush();
      await redis.store.redis.sadd(key, 'alice');
      await refused(fix(4), /Ruby Routemaster.*docs\/migrating\.md/);
      await fix(1);
    }
  });

  test('cannot be several under a prefix with a hash tag, which would put all into one slot', async () => {
    await refused(fix(4, '{shop}:'), /ROUTEMASTER_REDIS_PREFIX must have no \{/);
    await fix(1, '{shop}:');
  });
});
