import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { A3, a3, B1, b1, breaks, found, redis } from '../../../harness/scripts/breaking.ts';
import { longName, shortName } from '../../../harness/scripts/names.ts';
import { sweep } from '../../../src/maintenance/sweep/sweep.ts';

describe('batches', () => {
  breaks(
    'without a job get one',
    async ({ redis, keys }) => {
      await redis.srem(keys.jobs_index('main'), B1);
      await redis.zrem(keys.jobs_scheduled('main'), B1);
    },
    'batch_without_job b1',
  );

  breaks(
    'are entered in the index of all',
    ({ redis, keys }) => redis.zrem(keys.batches_index(), b1),
    'batch_unindexed b1',
  );

  breaks(
    'are entered in the index of their subscriber',
    ({ redis, keys }) => redis.zrem(keys.batches_queued('alice'), a3),
    'batch_unindexed a3',
  );

  breaks(
    'of which the head is no head become dead letters, whole',
    async ({ redis, keys }) => redis.lset(keys.batch(b1), 1, 'yesterday'),
    'batch_malformed b1',
    'job_without_batch b1',
  );

  breaks(
    'that begin with an event, as Redis kept half of a script that cut them, get a head',
    async ({ redis, keys }) => {
      await redis.rpush(keys.batch(a3), '{"id":"e12"}');
      await redis.ltrim(keys.batch(a3), -1, -1);
    },
    'batch_malformed a3',
  );

  breaks(
    'that begin with an event, and whose job was forgotten, get a head and a job',
    async ({ redis, keys }) => {
      await redis.rpush(keys.batch(a3), '{"id":"e12"}');
      await redis.ltrim(keys.batch(a3), -1, -1);
      await redis.zrem(keys.jobs_waiting('alice'), A3);
      await redis.srem(keys.jobs_index('main'), A3);
    },
    'batch_malformed a3',
    'batch_without_job a3',
  );

  breaks(
    'that are gone leave nothing behind',
    ({ redis, keys }) => redis.del(keys.batch(b1)),
    'entry_without_batch b1',
    'entry_without_batch b1',
    'entry_without_batch b1',
    'entry_without_batch b1',
    'job_without_batch b1',
    'batches_miscounted bob',
    'events_miscounted bob',
  );

  breaks(
    'that were attempted are not open',
    ({ redis, keys }) => redis.sadd(keys.batches_current('alice'), longName('a1')),
    'entry_without_batch a1',
  );

  breaks(
    'that were attempted are not open: where publish looks for them',
    ({ redis, keys }) => redis.hset(keys.batches_open(), 'alice', longName('a1')),
    'entry_without_batch a1',
  );

  for (const [what, bid] of [
    ['somebody else’s', longName('cc1')],
    ['gone', longName('zz1')],
  ] as const) {
    breaks(
      `that are ${what} are not open`,
      async ({ redis, keys }) => {
        await redis.hset(keys.batches_open(), 'bob', bid);
        await redis.del(keys.batches_current('bob'));
        await redis.sadd(keys.batches_current('bob'), bid);
      },
      `entry_without_batch ${shortName(bid)}`,
      `entry_without_batch ${shortName(bid)}`,
    );
  }

  breaks(
    'that are to hold more than their subscriber asked for are not open',
    ({ redis, keys }) => redis.hset(keys.batches_open(), 'bob', `${b1}1000`),
    'entry_without_batch b1',
  );

  breaks(
    'that are gone were not closed',
    ({ redis, keys }) => redis.hset(keys.batches_closed(), longName('zz1'), 1),
    'entry_without_batch zz1',
  );

  breaks(
    'of a subscriber that is gone have no room, and are named by themselves, not by its token',
    ({ redis, keys }) => redis.hset(keys.batches_room(), 'nobody', `${longName('zz1')}5`),
    'entry_without_batch zz1',
  );

  breaks(
    'that are current are open',
    ({ redis, keys }) => redis.hdel(keys.batches_open(), 'bob'),
    'entry_without_batch b1',
  );

  breaks(
    'that are open are current',
    ({ redis, keys }) => redis.del(keys.batches_current('bob')),
    'entry_without_batch b1',
  );

  breaks(
    'of somebody else are in nobody’s index',
    ({ redis, keys }) => redis.zadd(keys.batches_queued('bob'), 1, a3),
    'entry_without_batch a3',
  );

  breaks(
    'leave no attempts behind',
    ({ redis, keys }) => redis.rpush(keys.attempts(longName('zz1')), '{}'),
    'attempts_without_batch zz1',
  );

  test('that nobody can read are left alone, and reported by every sweep', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.lset(keys.batch(b1), 0, 'nobody');
    await commands.lset(keys.batch(b1), 2, 'often');
    const list = await commands.lrange(keys.batch(b1), 0, -1);
    await sweep(redis.store);
    assert.deepEqual(await found(), ['batch_unreadable b1']);
    assert.deepEqual(await commands.lrange(keys.batch(b1), 0, -1), list);
    await commands.del(keys.batch(b1));
    await commands.set(keys.batch(b1), 'a string');
    await sweep(redis.store);
    assert.deepEqual(await found(), ['batch_unreadable b1']);
  });
});
