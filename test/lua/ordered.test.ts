import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published, Wanted } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const subscribe = (wanted: Wanted = {}) => bus.subscribe('alice', { max: 1, ordered: 1, ...wanted });
const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const waiting = async () => (await bus.state()).lanes.waiting.alice ?? [];

/** Makes batches of one event each. Each batch is made by a call of its own. */
async function publish(...seeds: string[]): Promise<void> {
  for (const seed of seeds) await bus.publish(seed, 'widgets', [`event ${seed}`]);
}

/** Makes batches of one event each, at least a millisecond apart, because autodrop compares whole milliseconds. */
async function publishApart(...seeds: string[]): Promise<void> {
  for (const seed of seeds) {
    await publish(seed);
    const at = await bus.nowMs();
    await until(async () => (await bus.nowMs()) > at, { everyMs: 1 });
  }
}

/** Makes five batches whose names do not sort in the order in which they were made. */
async function five(wanted: Wanted = {}): Promise<void> {
  await subscribe(wanted);
  await publish('d', 'b', 'e', 'a', 'c');
}
const FIVE = ['d1', 'b1', 'e1', 'a1', 'c1'];

/** Delivers all remaining batches, one at a time. Resolves with their names, in the order of delivery. */
async function drain(): Promise<string[]> {
  const jobs: string[] = [];
  for (;;) {
    const acquired = await acquire('w1', 'w2', 'w3');
    if (acquired.length === 0) return jobs;
    assert.equal(acquired.length, 1, 'one at a time');
    const [job = ''] = acquired;
    jobs.push(job);
    assert.equal((await bus.ack('w1', job)).held, true);
  }
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('an ordered subscriber', () => {
  test('gets one batch at a time, in the order in which they were opened', async () => {
    await five();
    assert.deepEqual((await bus.state()).queued.alice, FIVE);
    assert.deepEqual(await drain(), FIVE);
  });

  test('gets batches opened within one millisecond in order', async () => {
    await subscribe();
    const publications = Array.from({ length: 300 }, (_, i): Published => ['widgets', 'shop', [`e${i}`]]);
    await bus.publishAll('z', ...publications.slice(0, 200));
    await bus.publishAll('a', ...publications.slice(200));
    const { redis: commands, keys } = bus.store;
    const scores = await commands.zrange(keys.batches_queued('alice'), '0', '-1', 'WITHSCORES');
    assert.equal(new Set(scores.filter((_, i) => i % 2)).size, 300, 'each has a place of its own');
    const { queued, batches } = await bus.state();
    assert.deepEqual(
      queued.alice?.flatMap((name) => batches[name]?.events ?? []),
      publications.flatMap(([, , events]) => events),
    );
  });

  test('gets batches in order although the clock of Redis was set back', async () => {
    await subscribe();
    await publish('d');
    const { redis: commands, keys } = bus.store;
    const [bid = ''] = await commands.zrange(keys.batches_queued('alice'), '0', '0');
    await commands.zadd(keys.batches_queued('alice'), ((await bus.nowMs()) + 60 * MINUTE_MS) * 1000, bid);
    await publish('b', 'e', 'a');
    assert.deepEqual(await drain(), ['d1', 'b1', 'e1', 'a1']);
  });

  test('gets no other batch while the oldest is in flight', async () => {
    await five();
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['d1']);
    await publish('f');
    assert.deepEqual(await acquire('w2', 'w3'), []);
    assert.deepEqual(await waiting(), ['b1', 'e1', 'a1', 'c1', 'f1']);
  });

  test('gets batches in order before its first delivery too', async () => {
    await five({ proven: false });
    assert.deepEqual(await drain(), FIVE);
  });

  test('gets a batch that is still open in its turn', async () => {
    await subscribe({ max: 2 });
    await bus.publish('b', 'widgets', ['1', '2', '3']);
    await bus.publish('a', 'widgets', ['4', '5']);
    assert.deepEqual((await bus.state()).queued.alice, ['b1', 'b2', 'a1']);
    await bus.ripen('a1');
    assert.deepEqual(await drain(), ['b1', 'b2', 'a1']);
  });

  test('does not delay other subscribers, however many of its batches wait', async () => {
    await five();
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
    await bus.publish('x', 'gadgets', ['1', '2', '3']);
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4'), ['d1', 'x1', 'x2', 'x3']);
  });
});

describe('nothing passes the oldest batch', () => {
  test('when it is scheduled for another attempt', async () => {
    await five();
    await acquire('w1');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS, damage: 2, throttleMs: 1 });
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await publish('f');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    await bus.ripen('d1');
    assert.deepEqual(await drain(), [...FIVE, 'f1']);
  });

  test('when the subscriber may be tried before the batch', async () => {
    await five();
    await acquire('w1');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS / 2 });
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.scheduled, lanes.waiting.alice], [['d1'], ['b1', 'e1', 'a1', 'c1']]);
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await bus.ripen('d1');
    assert.deepEqual(await drain(), FIVE);
  });

  test('when it is due before the subscriber may be tried: it is the probe', async () => {
    await five();
    await acquire('w1');
    await bus.nack('w1', 'd1', { delayMs: 1, damage: 2, throttleMs: MINUTE_MS });
    await bus.ripen('d1');
    await publish('f');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.scheduled, lanes.waiting.alice], [['d1'], ['b1', 'e1', 'a1', 'c1', 'f1']]);
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await bus.ripen('d1');
    assert.deepEqual(await drain(), [...FIVE, 'f1']);
  });

  test('when it is given back', async () => {
    await five();
    await acquire('w1');
    await bus.nack('w1', 'd1');
    assert.deepEqual(await drain(), FIVE);
  });

  test('when its worker dies', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.scrub(-1);
    assert.deepEqual(await drain(), FIVE);
  });

  test('when the worker of an earlier delivery from behind it dies', async () => {
    await five({ ordered: 0 });
    await acquire('w1', 'w2');
    await subscribe();
    await bus.nack('w1', 'd1');
    assert.deepEqual(await acquire('w3', 'w4'), []);
    assert.deepEqual(await waiting(), ['d1', 'e1', 'a1', 'c1']);
    await bus.scrub(-1);
    assert.deepEqual(await drain(), FIVE);
  });
});

describe('the next batch becomes ready', () => {
  test('when the oldest becomes a dead letter', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.bury('w1', 'd1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });

  test('when the oldest becomes a dead letter after many failures of the subscriber', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.bury('w1', 'd1', { damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w2'), []);
    assert.deepEqual((await bus.state()).main.scheduled, ['b1'], 'it is the probe');
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await bus.ripen('b1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });

  test('when the batches before it are dropped, in any state', async () => {
    await subscribe();
    await publishApart('d', 'b', 'e', 'a', 'c');
    await acquire('w1', 'w2');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS });
    await bus.autodrop(2);
    assert.deepEqual((await bus.state()).queued.alice, ['e1', 'a1', 'c1']);
    assert.deepEqual(await drain(), FIVE.slice(2));
  });

  test('when the batches behind the one in flight are dropped', async () => {
    await subscribe();
    await publishApart('d', 'b', 'e', 'a', 'c');
    await acquire('w1', 'w2');
    await bus.autodrop(2);
    assert.deepEqual((await bus.state()).queued.alice, ['d1', 'a1', 'c1']);
    await bus.ack('w1', 'd1');
    assert.deepEqual(await drain(), ['a1', 'c1']);
  });

  test('although a delivery from before the subscriber was ordered is still in flight', async () => {
    await five({ ordered: 0 });
    await acquire('w1', 'w2');
    await subscribe();
    await bus.ack('w1', 'd1');
    assert.deepEqual(await acquire('w1', 'w3'), [], 'b1 is in flight, and it is the oldest');
    await bus.nack('w2', 'b1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });
});

describe('a subscriber that becomes ordered', () => {
  test('gets its waiting batches in the order of acceptance', async () => {
    await five({ ordered: 0 });
    await subscribe();
    assert.deepEqual(await drain(), FIVE);
  });

  test('gets no new batch before the oldest of those in flight is accepted', async () => {
    await five({ ordered: 0 });
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['d1', 'b1', 'e1']);
    await subscribe();
    await bus.ack('w3', 'e1');
    await bus.ack('w2', 'b1');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    await bus.ripen('d1');
    assert.deepEqual(await drain(), ['d1', 'a1', 'c1']);
  });

  test('has its oldest batch wait for a newer one in flight', async () => {
    await five({ ordered: 0 });
    await acquire('w1', 'w2');
    await subscribe();
    await bus.nack('w1', 'd1');
    assert.deepEqual(await acquire('w1', 'w3'), []);
    await bus.ack('w2', 'b1');
    assert.deepEqual(await drain(), ['d1', 'e1', 'a1', 'c1']);
  });

  test('gets batches that waited outside the queue in order, whatever their order there', async () => {
    await five({ ordered: 0, inFlight: 1 });
    await acquire('w1', 'w2');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1'), ['b1']);
    assert.deepEqual(await waiting(), ['e1', 'a1', 'c1']);
    await bus.ripen('d1');
    await acquire('w2');
    assert.deepEqual(await waiting(), ['e1', 'a1', 'c1', 'd1']);
    await subscribe({ inFlight: '' });
    await bus.ack('w1', 'b1');
    assert.deepEqual(await drain(), ['d1', 'e1', 'a1', 'c1']);
  });

  test('gets its oldest batch next while it fails, although another was the probe', async () => {
    await five({ ordered: 0 });
    await acquire('w1');
    await bus.nack('w1', 'd1', { delayMs: 2 * MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    await acquire('w1', 'w2');
    await bus.ripen('d1');
    await acquire('w1', 'w2');
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.scheduled, lanes.waiting.alice], [['b1'], ['e1', 'a1', 'c1', 'd1']]);
    await subscribe();
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await bus.ripen('b1');
    assert.deepEqual(await drain(), FIVE);
  });

  test('and then unordered again has several deliveries in flight', async () => {
    await five();
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['d1']);
    await subscribe({ ordered: 0 });
    assert.deepEqual(await acquire('w2', 'w3', 'w4'), ['b1', 'e1', 'a1']);
    await subscribe();
    await bus.ack('w1', 'd1');
    assert.deepEqual(await acquire('w1', 'w5'), []);
    for (const [worker, job] of [
      ['w2', 'b1'],
      ['w3', 'e1'],
      ['w4', 'a1'],
    ] as const)
      await bus.ack(worker, job);
    assert.deepEqual(await drain(), ['c1']);
  });
});
