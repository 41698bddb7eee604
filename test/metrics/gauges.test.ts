import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { spareUids, uids } from '../../src/ids.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { readGauges } from '../../src/metrics/gauges.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const NONE = { batches: 0, events: 0, bytes: 0 };
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 0, leaseMs: 30_000 };
const gauges = () => readGauges(new Partitions(redis.store), LIMITS);

const bus = new Bus(() => redis.store);
const subscribe = (token: string, timeout: number, max: number) => bus.subscribe(token, { timeout, max });
const publish = (n: number) => bus.publish('a', 'widgets', Array<string>(n).fill('event'));

const queue = async (name: 'main' | 'aux') => {
  const found = (await gauges()).queues.find((each) => each.queue === name);
  assert.ok(found);
  const { instant, scheduled, due, pending, waiting } = found;
  return { instant, scheduled, due, pending, waiting };
};

beforeEach(() => redis.flush());

test('an empty bus has gauges of 0', async () => {
  const { subscribers, queues, workers, memory, cpuSeconds, replicas } = await gauges();
  const none = { instant: 0, scheduled: 0, due: 0, pending: 0, waiting: 0 };
  assert.deepEqual(subscribers, []);
  assert.deepEqual(queues, [
    { queue: 'main', ...none },
    { queue: 'aux', ...none },
  ]);
  assert.deepEqual([workers, replicas], [0, 0]);
  assert.ok(memory.used > 0);
  assert.ok(Number(cpuSeconds.system) + Number(cpuSeconds.user) > 0);
});

test('the bus has the time at which it began, with several partitions that of the last one to begin', async () => {
  assert.equal((await gauges()).begunAtMs, undefined);
  const beganAtMs = await bus.nowMs();
  const begin = (partition: Partition) => prepareStorage(partition, 30_000, capturedLog().log);
  await begin(redis.store);
  const { begunAtMs = 0 } = await gauges();
  assert.ok(begunAtMs >= beganAtMs && begunAtMs <= (await bus.nowMs()), `${begunAtMs}`);
  await begin(redis.store);
  assert.equal((await gauges()).begunAtMs, begunAtMs);

  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  for (const each of partitions.all) await begin(each);
  const [, second = assert.fail()] = partitions.all;
  await second.redis.set(second.keys.begun_at(), begunAtMs + 3_600_000);
  assert.equal((await readGauges(partitions, LIMITS)).begunAtMs, begunAtMs + 3_600_000);
});

test('topics show how many of their events are delayed, if any are', async () => {
  await publish(1);
  assert.deepEqual((await gauges()).delayed, []);
  const later = (id: string) => ({ id, delay: 3_600_000 });
  await bus.delay('a', 'widgets', [later('e1'), later('e2')]);
  await bus.delay('b', 'gadgets', [later('e1')]);
  assert.deepEqual((await gauges()).delayed.sort(), [
    ['gadgets', 1],
    ['widgets', 2],
  ]);
});

describe('subscribers', () => {
  test('show their queued events and batches, or 0', async () => {
    await subscribe('empty', 0, 10);
    await redis.store.run('unsubscribe', { token: 'empty', topic: 'widgets', isForeign: false });
    await subscribe('full', 1000, 2);
    await publish(5);
    const { subscribers } = await gauges();
    assert.deepEqual(
      subscribers.map(({ oldestAgeMs, bytes, ...rest }) => rest),
      [
        {
          token: 'empty',
          events: 0,
          batches: 0,
          deadLetters: NONE,
          openKeys: undefined,
          healthPoints: 100,
          pausedBy: null,
        },
        {
          token: 'full',
          events: 5,
          batches: 3,
          deadLetters: NONE,
          openKeys: undefined,
          healthPoints: 100,
          pausedBy: null,
        },
      ],
    );
  });

  test('have numbers, whatever their token is', async () => {
    for (const token of ['__proto__', 'constructor']) await subscribe(token, 0, 10);
    await publish(3);
    const found = (await gauges()).subscribers.map(({ oldestAgeMs, bytes, ...rest }) => rest);
    const expected = {
      events: 3,
      batches: 1,
      deadLetters: NONE,
      openKeys: undefined,
      healthPoints: 100,
      pausedBy: null,
    };
    assert.deepEqual(found, [
      { token: '__proto__', ...expected },
      { token: 'constructor', ...expected },
    ]);
    await bus.store.redis.del(bus.store.keys.gauge_events(), bus.store.keys.gauge_batches());
    assert.deepEqual(
      (await gauges()).subscribers.map(({ events, batches }) => [events, batches]),
      [
        [0, 0],
        [0, 0],
      ],
    );
  });

  test('show the age of the oldest batch by the clock of Redis', async () => {
    await subscribe('a', 1000, 1);
    await publish(1);
    await until(async () => Number((await gauges()).subscribers[0]?.oldestAgeMs) > 2);
    const bids = await redis.store.redis.zrange(redis.store.keys.batches_queued('a'), '0', '-1');
    await redis.store.redis.zadd(redis.store.keys.batches_queued('a'), 'INCR', -90_000_000, String(bids[0]));
    const age = Number((await gauges()).subscribers[0]?.oldestAgeMs);
    assert.ok(age > 90_000 && age < 120_000, `${age}`);
  });

  test('show their health', async () => {
    await subscribe('a', 0, 1);
    await publish(1);
    await bus.acquire(['worker']);
    await bus.nack('worker', 'a1', { delayMs: 60_000, damage: 2 });
    assert.equal((await gauges()).subscribers[0]?.healthPoints, 98);
  });

  test('show their dead letters, as long as there are any', async () => {
    await subscribe('a', 0, 2);
    await publish(5);
    await buryAll(redis.store);
    const [first] = (await gauges()).subscribers;
    const { bytes = 0, ...letters } = first?.deadLetters ?? {};
    assert.deepEqual([first?.events, first?.batches, letters], [0, 0, { batches: 3, events: 5 }]);
    assert.deepEqual([first?.bytes, bytes > 3 * 400], [0, true]);
    await redis.store.run('remove_subscriber', { token: 'a', series: [] });
    const [gone] = (await gauges()).subscribers;
    assert.deepEqual([gone?.healthPoints, gone?.deadLetters], [undefined, first?.deadLetters]);
    assert.equal(await bus.purge('', 'a1', 'a2', 'a3'), 3);
    assert.deepEqual((await gauges()).subscribers, []);
  });

  test('that have unsubscribed are shown, without health, as long as they have batches', async () => {
    await subscribe('gone', 0, 10);
    await publish(3);
    await redis.store.run('remove_subscriber', { token: 'gone', series: [] });
    const [gone, ...more] = (await gauges()).subscribers;
    assert.deepEqual(more, []);
    assert.deepEqual(
      { ...gone, oldestAgeMs: 0, bytes: Number(gone?.bytes) > 400 },
      {
        token: 'gone',
        events: 3,
        batches: 1,
        bytes: true,
        oldestAgeMs: 0,
        deadLetters: NONE,
        openKeys: undefined,
        healthPoints: undefined,
        pausedBy: null,
      },
    );
    await bus.dropQueue('gone');
    assert.deepEqual((await gauges()).subscribers, []);
  });
});

test('workers that deliver are counted by kind, and those of maintenance only among all', async () => {
  await bus.acquire(uids(3), { idle: 0 });
  await bus.acquire(spareUids(2), { idle: 0, kind: 'spare' });
  await bus.acquire(uids(1), { q: 'aux' });
  const { workers, deliveryWorkers } = await gauges();
  assert.deepEqual([workers, deliveryWorkers], [6, { regular: 3, spare: 2 }]);
});

test('workers of a process that was killed do not count as workers that deliver, though nobody scrubbed them', async () => {
  const [killed, other] = uids(2) as [string, string];
  const [spare] = spareUids(1) as [string];
  await bus.acquire([killed, other], { idle: 0 });
  await bus.acquire([spare], { idle: 0, kind: 'spare' });
  const { redis: client, keys } = redis.store;
  for (const worker of [killed, spare])
    await client.hset(keys.workers(), worker, (await bus.nowMs()) - LIMITS.leaseMs - 1);
  const { workers, deliveryWorkers } = await gauges();
  assert.deepEqual([workers, deliveryWorkers], [3, { regular: 1, spare: 0 }]);
});

describe('jobs', () => {
  test('are counted in every state', async () => {
    await subscribe('soon', 60_000, 3);
    await publish(7);
    assert.deepEqual(await queue('main'), { instant: 2, scheduled: 1, due: 0, pending: 0, waiting: 0 });
    await bus.acquire(['one']);
    assert.deepEqual(await queue('main'), { instant: 1, scheduled: 1, due: 0, pending: 1, waiting: 0 });
    await bus.acquire(['one', 'two', 'idle']);
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 1, due: 0, pending: 2, waiting: 0 });
    assert.deepEqual(await queue('aux'), { instant: 0, scheduled: 0, due: 0, pending: 0, waiting: 0 });
    assert.equal((await gauges()).workers, 3);
  });

  test('are waiting if the lane of their subscriber is full', async () => {
    await subscribe('slow', 0, 1);
    await publish(3);
    await bus.acquire(['one', 'two'], { laneLimit: 1 });
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 0, due: 0, pending: 1, waiting: 2 });
  });

  test('are due when their deadline has come', async () => {
    await subscribe('now', 1, 100);
    await publish(1);
    await until(async () => (await queue('main')).due === 1);
    assert.deepEqual(await queue('main'), { instant: 0, scheduled: 1, due: 1, pending: 0, waiting: 0 });
  });
});

test('readGauges rejects while Redis is away', async () => {
  const store = await openStore(redis.redis.url);
  store.redis.disconnect();
  await assert.rejects(readGauges(new Partitions(store), LIMITS), StorageUnavailable);
});
