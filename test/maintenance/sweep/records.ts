import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { breaks, bus, found, redis } from '../../../harness/scripts/breaking.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { longName } from '../../../harness/scripts/names.ts';
import { readRecords } from '../../../harness/scripts/records.ts';

const DAY_MS = 86_400_000;
const record = (endedAtMs: number) => `${endedAtMs}000,1600000000000,1,1,null,9,1600000000001,200,5`;
const ids = async () => [...(await readRecords(redis.store)).keys()];

describe('delivery logs', () => {
  breaks(
    'that are counted as longer',
    ({ redis, keys }) => redis.zadd(keys.deliveries_logs(), 32, 'taken erin'),
    'records_miscounted erin',
    'records_total_wrong deliveries:total',
  );

  breaks(
    'that are not listed',
    ({ redis, keys }) => redis.zrem(keys.deliveries_logs(), 'taken erin'),
    'records_miscounted erin',
  );

  breaks(
    'that are gone',
    ({ redis, keys }) => redis.del(keys.deliveries_taken('erin')),
    'records_miscounted erin',
  );

  breaks(
    'of which all together are miscounted',
    ({ redis, keys }) => redis.hset(keys.deliveries_total(), 'records', 16),
    'records_total_wrong deliveries:total',
  );

  test('of a subscriber that an earlier release has removed go, without a finding', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.rpush(keys.deliveries_dropped('nobody'), longName('n1'), record(await bus.nowMs()));
    await commands.zadd(keys.deliveries_logs(), 0, 'dropped nobody', 0, 'taken nobody');
    assert.deepEqual(await found(), []);
    assert.deepEqual(await ids(), [longName('e1')]);
    await assertConsistent(redis.store);
  });

  test('lose what is older than a day, without a finding', async () => {
    const { redis: commands, keys } = redis.store;
    const oldMs = (await bus.nowMs()) - DAY_MS - 1;
    for (let i = 1; i <= 1100; i++)
      await commands.lpush(keys.deliveries_taken('erin'), record(oldMs), longName(`o${i}`));
    assert.deepEqual(await found(), ['records_miscounted erin']);
    assert.deepEqual(await ids(), [longName('e1')]);
    await assertConsistent(redis.store);
    await commands.lpush(keys.deliveries_taken('erin'), record(oldMs), longName('p1'));
    assert.deepEqual(await found(), []);
    assert.deepEqual(await ids(), [longName('e1')]);
  });

  test('lose what is older than a day also if another program has appended half a record', async () => {
    const { redis: commands, keys } = redis.store;
    const log = keys.deliveries_dropped('erin');
    const oldMs = (await bus.nowMs()) - DAY_MS - 1;
    await commands.rpush(log, longName('o1'), record(oldMs), 'astray');
    assert.deepEqual(await found(), ['records_miscounted erin']);
    assert.deepEqual(await commands.lrange(log, 0, -1), ['astray']);
  });

  test('make the sweep fail at its end if another program has written a trail', async () => {
    await redis.store.redis.set(redis.store.keys.deliveries_trail('taken'), 'a text');
    await assert.rejects(found(), /WRONGTYPE/);
    await redis.store.redis.del(redis.store.keys.deliveries_trail('taken'));
  });
});

test('what is retried is listed as such, without a finding: an earlier release did not do it', async () => {
  const { redis: commands, keys } = redis.store;
  await bus.nack('w1', 'a1', { delayMs: 60_000, attempt: '{}' });
  await commands.del(keys.batches_retrying('alice'));
  await commands.zadd(keys.batches_retrying('bob'), 1, longName('a1'), 2, longName('b1'), 3, longName('no1'));
  assert.deepEqual(await found(), []);
  assert.deepEqual(await commands.zrange(keys.batches_retrying('alice'), '0', '-1'), [longName('a1')]);
  await assertConsistent(redis.store);
});
