import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { breaks, found, redis } from '../../../harness/scripts/breaking.ts';
import { putTrigger } from '../../../harness/scripts/triggers.ts';

const [SOON, LATER] = [1_999_000_000_000, 1_999_000_060_000];

describe('triggers', () => {
  beforeEach(async () => {
    await putTrigger(redis.store, 'daily', { nextAt: SOON });
    await putTrigger(redis.store, 'paused', { nextAt: SOON, paused: true });
    await putTrigger(redis.store, 'over', { nextAt: undefined });
    await putTrigger(redis.store, 'daily', { client: 'mill', topic: 'mills', nextAt: LATER });
  });

  breaks(
    'stand at their time: missing',
    ({ redis, keys }) => redis.zrem(keys.triggers_due(), 'daily shop', 'paused shop'),
    'trigger_misplaced daily shop',
    'trigger_misplaced paused shop',
  );

  breaks(
    'stand at their time: at another one',
    ({ redis, keys }) =>
      redis.zadd(keys.triggers_due(), LATER, 'daily shop', SOON, 'over shop', SOON, 'paused shop'),
    'trigger_misplaced daily shop',
    'trigger_misplaced over shop',
    'trigger_misplaced paused shop',
  );

  breaks(
    'are there, where an entry is',
    ({ redis, keys }) =>
      redis.zadd(keys.triggers_due(), SOON, 'gone shop', SOON, 'daily other', SOON, 'nonsense'),
    'entry_without_trigger daily other',
    'entry_without_trigger gone shop',
    'entry_without_trigger nonsense',
  );

  breaks(
    'have a definition and their counts, or neither',
    async ({ redis, keys }) => {
      await redis.del(keys.trigger('shop', 'daily'));
      await redis.hdel(keys.triggers_of('shop'), 'paused');
      await redis.hset(keys.triggers_of('nobody'), 'half', 'r\nwidgets\nall\n{}\n\n');
    },
    'trigger_incomplete daily shop',
    'trigger_incomplete half nobody',
    'trigger_incomplete paused shop',
  );
});

test('a moving trigger is due all the time', async () => {
  const { redis: commands, keys } = redis.store;
  await putTrigger(redis.store, 'daily', { nextAt: LATER });
  await commands.hset(keys.trigger('shop', 'daily'), 'moving', 'stored');
  assert.deepEqual(await found(), ['trigger_misplaced daily shop']);
  assert.deepEqual(await found(), []);
  await commands.zadd(keys.triggers_due(), SOON - 1e12, 'daily shop');
  assert.deepEqual(await found(), []);
  await redis.flush();
});

describe('an unreadable trigger', () => {
  test('is reported at each sweep, left alone, and does not fire', async () => {
    const { redis: commands, keys } = redis.store;
    await putTrigger(redis.store, 'daily', { nextAt: SOON });
    await commands.hset(keys.triggers_of('shop'), 'daily', 'nonsense');
    await putTrigger(redis.store, 'other', { nextAt: SOON });
    await commands.del(keys.trigger('shop', 'other'));
    await commands.set(keys.trigger('shop', 'other'), 'nonsense');
    const unreadable = ['trigger_unreadable daily shop', 'trigger_unreadable other shop'];
    assert.deepEqual(await found(), unreadable);
    assert.deepEqual(await found(), unreadable);
    assert.equal(await commands.zcard(keys.triggers_due()), 0);
    assert.equal(await commands.hget(keys.triggers_of('shop'), 'daily'), 'nonsense');
    await redis.flush();
  });
});
