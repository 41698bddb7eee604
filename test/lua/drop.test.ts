import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, nthWord } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_LANES, EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { until } from '../../harness/until.ts';
import { StorageFull } from '../../src/errors.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

/** Resolves when the clock of Redis is a millisecond further, so that the next batch has a later time. */
async function aMillisecondPasses(): Promise<void> {
  const now = await bus.nowMs();
  await until(async () => (await bus.nowMs()) > now);
}

/**
 * Makes four batches, oldest first: alice's a1 and b1 with two events each, which are ready; bob's c1 with one event,
 * which is scheduled; and alice's d1 with one event, which is scheduled and open.
 */
async function queues(): Promise<void> {
  await bus.subscribe('alice', { max: 2 });
  await bus.subscribe('bob', { topics: ['gadgets'] });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await aMillisecondPasses();
  await bus.publish('b', 'widgets', ['e3', 'e4']);
  await aMillisecondPasses();
  await bus.publish('c', 'gadgets', ['e5']);
  await aMillisecondPasses();
  await bus.publish('d', 'widgets', ['e6']);
}

beforeEach(() => redis.flush());
afterEach(async () => {
  await bus.store.redis.config('SET', 'maxmemory', '0');
  await assertConsistent(redis.store);
});

describe('autodrop', () => {
  test('deletes the oldest batches with their jobs, whatever their state, counted per subscriber', async () => {
    await queues();
    assert.deepEqual(await bus.autodrop(3), { batches: 3, dropped: { alice: 4, bob: 1 } });
    assert.deepEqual(await bus.state(), {
      batches: { d1: { token: 'alice', attempts: 0, events: ['e6'] } },
      index: ['d1'],
      queued: { alice: ['d1'] },
      current: { alice: ['d1'] },
      gauges: { events: { alice: 1 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['d1'], scheduled: ['d1'] },
      aux: EMPTY_QUEUE,
      lanes: EMPTY_LANES,
    });
    assert.equal((await bus.subscriber('alice')).sent, '1', 'what was dropped was not sent');
  });

  test('drops strictly by age, one by one', async () => {
    await queues();
    const left = [];
    for (let i = 0; i < 4; i++) {
      left.push((await bus.state()).index[0]);
      assert.equal((await bus.autodrop(1)).batches, 1);
    }
    assert.deepEqual(left, ['a1', 'b1', 'c1', 'd1']);
  });

  test('says 0 when there is nothing left', async () => {
    await queues();
    assert.deepEqual(await bus.autodrop(100), { batches: 4, dropped: { alice: 5, bob: 1 } });
    assert.deepEqual(await bus.autodrop(100), { batches: 0, dropped: {} });
    assert.deepEqual(await bus.state(), EMPTY);
  });

  test('spares batches that are being delivered, and goes on with the next', async () => {
    await queues();
    await bus.acquire(['w1']);
    assert.deepEqual(await bus.autodrop(1), { batches: 1, dropped: { alice: 2 } });
    assert.deepEqual((await bus.state()).index, ['a1', 'c1', 'd1']);
    assert.deepEqual(await bus.autodrop(100), { batches: 2, dropped: { alice: 1, bob: 1 } });
    assert.deepEqual(await bus.autodrop(100), { batches: 0, dropped: {} });
    assert.deepEqual((await bus.state()).main.pending, { w1: ['a1'] });
    assert.deepEqual(await bus.ack('w1', 'a1'), { held: true, removed: 2 });
  });

  test('does not spare a batch that waits for its next attempt', async () => {
    await queues();
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { delayMs: 60_000 });
    assert.deepEqual(await bus.autodrop(1), { batches: 1, dropped: { alice: 2 } });
    assert.deepEqual((await bus.state()).index, ['b1', 'c1', 'd1']);
  });

  test('clears an index entry of which the list is gone', async () => {
    await queues();
    await bus.store.redis.zadd('batches:index', 1, longName('lost1'));
    assert.deepEqual(await bus.autodrop(1), { batches: 1, dropped: {} });
    assert.deepEqual((await bus.state()).index, ['a1', 'b1', 'c1', 'd1']);
  });

  test('lets the next event open a new batch', async () => {
    await queues();
    await bus.autodrop(100);
    await bus.publish('e', 'widgets', ['e7']);
    assert.deepEqual((await bus.state()).batches, { e1: { token: 'alice', attempts: 0, events: ['e7'] } });
  });
});

describe('when memory is exhausted', () => {
  const exhaust = () => bus.store.redis.config('SET', 'maxmemory', '1');

  test('publish and subscribe are refused, and nothing of them is stored', async () => {
    await queues();
    const before = await snapshot(bus.store);
    await exhaust();
    await assert.rejects(bus.publish('z', 'widgets', ['e']), StorageFull);
    await assert.rejects(bus.publish('z', 'unheard_of', ['e']), StorageFull);
    await assert.rejects(bus.subscribe('carol'), StorageFull);
    assert.deepEqual(await snapshot(bus.store), before);
  });

  test('scripts that free memory or move jobs still run', async () => {
    await queues();
    await bus.addIdleWorkers();
    await exhaust();
    assert.equal(await bus.enqueue('autodrop'), true);
    assert.equal((await bus.acquire(['x1'], { q: 'aux' })).grants[0]?.job, 'autodrop');
    assert.equal((await bus.acquire(['w1', 'w2'], { idle: 0 })).grants.length, 2);
    assert.equal((await bus.ack('w1', 'a1')).held, true);
    assert.equal(await bus.nack('w2', 'b1', { delayMs: 1, damage: 2, throttleMs: 1 }), true);
    await bus.schedule();
    await bus.heartbeat(['w1', 'w2', 'x1']);
    assert.equal(
      await bus.store.run('count', { process: 'process', flush: 1, counts: [{ field: 'field', count: 1 }] }),
      true,
    );
    assert.deepEqual((await bus.scrub(-1)).jobs, [0, 1]);
    assert.equal(
      await bus.store.run('unsubscribe', { token: 'alice', topic: 'widgets', isForeign: false }),
      'ok',
    );
    await bus.store.run('remove_subscriber', { token: 'bob', series: [] });
    assert.deepEqual(await bus.dropQueue('bob'), { batches: 1, events: 1 });
    const { outcome } = await bus.store.run('remove_topic', { topic: 'gadgets', series: [] });
    assert.equal(outcome, 'ok');
    assert.deepEqual(await bus.autodrop(100), { batches: 2, dropped: { alice: 3 } });
  });

  test('autodrop frees memory, and publishing works again', async () => {
    await bus.subscribe('alice', { max: 1 });
    const used = Number(/^used_memory:(\d+)/m.exec(await bus.store.redis.info('memory'))?.[1]);
    await bus.store.redis.config('SET', 'maxmemory', String(used + 2_000_000));
    const event = 'x'.repeat(50_000);
    let refused: unknown;
    for (let i = 0; !refused && i < 100; i++) {
      await bus.publish(nthWord(i), 'widgets', [event]).catch((error: unknown) => {
        refused = error;
      });
    }
    assert.ok(refused instanceof StorageFull);
    assert.deepEqual((await bus.autodrop(5)).batches, 5);
    await until(() => bus.publish('more', 'widgets', [event]).then(() => true));
  });
});

describe('drop_queue', () => {
  test('deletes the batches of one subscriber with their jobs, and no others', async () => {
    await queues();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.dropQueue('alice'), { batches: 3, events: 5 });
    assert.deepEqual(await bus.state(), {
      ...EMPTY,
      batches: { c1: { token: 'bob', attempts: 0, events: ['e5'] } },
      index: ['c1'],
      queued: { bob: ['c1'] },
      current: { bob: ['c1'] },
      gauges: { events: { bob: 1 }, batches: { bob: 1 } },
      main: { ...EMPTY_QUEUE, index: ['c1'], scheduled: ['c1'] },
    });
  });

  test('drops the oldest n, and returns 0 when no batch remains', async () => {
    await queues();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.dropQueue('alice', 2), { batches: 2, events: 4 });
    assert.deepEqual((await bus.state()).queued, { alice: ['d1'], bob: ['c1'] });
    assert.deepEqual(await bus.dropQueue('alice', 2), { batches: 1, events: 1 });
    assert.deepEqual(await bus.dropQueue('alice', 2), { batches: 0, events: 0 });
  });

  test('keeps batches that are being delivered', async () => {
    await queues();
    await bus.acquire(['w1']);
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.dropQueue('alice', 1), { batches: 1, events: 2 });
    assert.deepEqual(await bus.dropQueue('alice', 500), { batches: 1, events: 1 });
    assert.deepEqual((await bus.state()).queued, { alice: ['a1'], bob: ['c1'] });
    assert.equal((await bus.ack('w1', 'a1')).removed, 2);
  });

  test('deletes index entries whose batch is gone, so that it ends', async () => {
    await queues();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await bus.store.redis.zadd('batches:index:alice', 1, longName('lost1'), 2, longName('lost2'));
    assert.deepEqual(await bus.dropQueue('alice', 2), { batches: 2, events: 0 });
    assert.deepEqual(await bus.dropQueue('alice', 500), { batches: 3, events: 5 });
  });
});
