import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { StorageUnavailable } from '../../src/errors.ts';
import { readGauges } from '../../src/models/gauges.ts';
import { openStore, TestStore } from '../support/store.ts';
import { until } from '../support/until.ts';

const redis = new TestStore();
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 0 };
const gauges = () => readGauges(redis.store, LIMITS);

const subscribe = (token: string, timeout: number, max: number) =>
  redis.store.run('subscribe', token, 'https://a.example/', '', timeout, max, 'widgets');
const publish = (n: number) =>
  redis.store.run('publish', '0123456789abcdef', 'widgets', 'pub', n, ...Array(n).fill('event'));

const queue = async (name: 'main' | 'aux') => {
  const found = (await gauges()).queues.find((each) => each.queue === name);
  assert.ok(found);
  const { instant, scheduled, due, pending, waiting } = found;
  return { instant, scheduled, due, pending, waiting };
};

beforeEach(() => redis.flush());

test('an empty bus', async () => {
  const { subscribers, queues, workers, memory, cpuSeconds } = await gauges();
  const none = { instant: 0, scheduled: 0, due: 0, pending: 0, waiting: 0 };
  assert.deepEqual(subscribers, []);
  assert.deepEqual(queues, [
    { queue: 'main', ...none },
    { queue: 'aux', ...none },
  ]);
  assert.equal(workers, 0);
  assert.ok(memory.used > 0);
  assert.ok(cpuSeconds.system > 0 || cpuSeconds.user > 0);
});

describe('subscribers', () => {
  test('show what they have queued, and 0 if they have nothing', async () => {
    await subscribe('empty', 0, 10);
    await redis.store.run('unsubscribe', 'empty', 'widgets');
    await subscribe('full', 1000, 2);
    await publish(5);
    const { subscribers } = await gauges();
    assert.deepEqual(
      subscribers.map(({ oldestMs, ...rest }) => rest),
      [
        { token: 'empty', events: 0, batches: 0, healthPoints: 100 },
        { token: 'full', events: 5, batches: 3, healthPoints: 100 },
      ],
    );
  });

  test('show the age of the oldest batch by the clock of Redis', async () => {
    await subscribe('a', 1000, 1);
    await publish(1);
    await until(async () => Number((await gauges()).subscribers[0]?.oldestMs) > 2);
    const bids = await redis.store.redis.zrange(redis.store.keys.batches_queued('a'), '0', '-1');
    await redis.store.redis.zadd(redis.store.keys.batches_queued('a'), 'INCR', -90_000, String(bids[0]));
    const age = Number((await gauges()).subscribers[0]?.oldestMs);
    assert.ok(age > 90_000 && age < 120_000, `${age}`);
  });

  test('show their health', async () => {
    await subscribe('a', 0, 1);
    await publish(1);
    const [, , grants] = (await redis.store.run('acquire', 'main', 1000, 'worker')) as [
      number,
      number,
      Buffer[][],
    ];
    const [worker, job, batch] = grants[0] as Buffer[];
    assert.ok(worker && job && batch);
    const bid = (await redis.store.redis.zrange(redis.store.keys.batches_index(), '0', '0'))[0] ?? '';
    await redis.store.run('nack', 'main', worker, job, 60_000, bid, 2, 0);
    assert.equal((await gauges()).subscribers[0]?.healthPoints, 98);
  });

  test('that have unsubscribed show as long as batches of theirs are left, without health', async () => {
    await subscribe('gone', 0, 10);
    await publish(3);
    await redis.store.run('remove_subscriber', 'gone');
    const [gone, ...more] = (await gauges()).subscribers;
    assert.deepEqual(more, []);
    assert.deepEqual(
      { ...gone, oldestMs: 0 },
      {
        token: 'gone',
        events: 3,
        batches: 1,
        oldestMs: 0,
        healthPoints: undefined,
      },
    );
    await redis.store.run('drop_queue', 'gone', 10, '+inf');
    assert.deepEqual((await gauges()).subscribers, []);
  });
});

describe('jobs', () => {
  test('are counted in every state', async () => {
    await subscribe('soon', 60_000, 3);
    await publish(7);
    assert.deepEqual(await queue('main'), { instant: 2, scheduled: 1, due: 0, pending: 0, waiting: 0 });
    await redis.store.run('acquire', 'main', 1000, 'one');
    assert.deepEqual(await queue('main'), { instant: 1, scheduled: 1, due: 0, pending: 1, waiting: 0 });
    await redis.store.run('acquire', 'main', 1000, 'one', 'two', 'idle');
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 1, due: 0, pending: 2, waiting: 0 });
    assert.deepEqual(await queue('aux'), { instant: 0, scheduled: 0, due: 0, pending: 0, waiting: 0 });
    assert.equal((await gauges()).workers, 3);
  });

  test('wait aside where the lane of their subscriber has no room', async () => {
    await subscribe('slow', 0, 1);
    await publish(3);
    await redis.store.run('acquire', 'main', 1, 'one', 'two');
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 0, due: 0, pending: 1, waiting: 2 });
  });

  test('are due when their deadline has come', async () => {
    await subscribe('now', 1, 100);
    await publish(1);
    await until(async () => (await queue('main')).due === 1);
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 1, due: 1, pending: 0, waiting: 0 });
  });
});

test('while Redis is away, it says so', async () => {
  const store = await openStore(redis.redis.url);
  store.redis.disconnect();
  await assert.rejects(readGauges(store, LIMITS), StorageUnavailable);
});
