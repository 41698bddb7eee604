import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus, type Published, type Wanted } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const subscribe = (wanted: Wanted = {}) => bus.subscribe('alice', { max: 1, ordered: 1, ...wanted });
const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const waiting = async () => (await bus.state()).lanes.waiting.alice ?? [];

/** Batches of one event each, one call for each. */
async function publish(...seeds: string[]): Promise<void> {
  for (const seed of seeds) await bus.publish(seed, 'widgets', [`event ${seed}`]);
}

/** Autodrop goes by milliseconds. */
async function publishApart(...seeds: string[]): Promise<void> {
  for (const seed of seeds) {
    await publish(seed);
    const at = await bus.nowMs();
    await until(async () => (await bus.nowMs()) > at, { everyMs: 1 });
  }
}

/** The seeds are in no order: what was first is not what sorts first. */
async function five(wanted: Wanted = {}): Promise<void> {
  await subscribe(wanted);
  await publish('d', 'b', 'e', 'a', 'c');
}
const FIVE = ['d1', 'b1', 'e1', 'a1', 'c1'];

/** All that is left is delivered, one at a time. Answers in which order. */
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

  test('gets them so however many were opened within a millisecond', async () => {
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

  test('gets them so though Redis’s clock was set back', async () => {
    await subscribe();
    await publish('d');
    const { redis: commands, keys } = bus.store;
    const [bid = ''] = await commands.zrange(keys.batches_queued('alice'), '0', '0');
    await commands.zadd(keys.batches_queued('alice'), ((await bus.nowMs()) + 60 * MINUTE_MS) * 1000, bid);
    await publish('b', 'e', 'a');
    assert.deepEqual(await drain(), ['d1', 'b1', 'e1', 'a1']);
  });

  test('gets none while the oldest is in flight, whatever comes meanwhile', async () => {
    await five();
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['d1']);
    await publish('f');
    assert.deepEqual(await acquire('w2', 'w3'), []);
    assert.deepEqual(await waiting(), ['b1', 'e1', 'a1', 'c1', 'f1']);
  });

  test('that was never delivered to gets them so, too', async () => {
    await five({ proven: false });
    assert.deepEqual(await drain(), FIVE);
  });

  test('gets a batch that takes events still in its turn', async () => {
    await subscribe({ max: 2 });
    await bus.publish('b', 'widgets', ['1', '2', '3']);
    await bus.publish('a', 'widgets', ['4', '5']);
    assert.deepEqual((await bus.state()).queued.alice, ['b1', 'b2', 'a1']);
    await bus.ripen('a1');
    assert.deepEqual(await drain(), ['b1', 'b2', 'a1']);
  });

  test('does not hold up others, however much of it waits', async () => {
    await five();
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
    await bus.publish('x', 'gadgets', ['1', '2', '3']);
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4'), ['d1', 'x1', 'x2', 'x3']);
  });
});

describe('nothing passes the oldest batch', () => {
  test('when it is to be tried again later', async () => {
    await five();
    await acquire('w1');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS, damage: 2, throttleMs: 1 });
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await publish('f');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    await bus.ripen('d1');
    assert.deepEqual(await drain(), [...FIVE, 'f1']);
  });

  test('when the subscriber may be tried before the batch may', async () => {
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

  test('when it comes before the subscriber may be tried: it is the probe', async () => {
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

  test('when its worker died', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.scrub(-1);
    assert.deepEqual(await drain(), FIVE);
  });

  test('when the worker died that delivered one behind it, for which it had to wait', async () => {
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

describe('the next batch comes', () => {
  test('when the oldest became a dead letter', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.bury('w1', 'd1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });

  test('when the oldest became one for the subscriber’s failures', async () => {
    await five();
    await acquire('w1', 'w2');
    await bus.bury('w1', 'd1', { damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w2'), []);
    assert.deepEqual((await bus.state()).main.scheduled, ['b1'], 'it is the probe');
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await bus.ripen('b1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });

  test('when those before it were dropped, wherever they were', async () => {
    await subscribe();
    await publishApart('d', 'b', 'e', 'a', 'c');
    await acquire('w1', 'w2');
    await bus.nack('w1', 'd1', { delayMs: MINUTE_MS });
    await bus.autodrop(2);
    assert.deepEqual((await bus.state()).queued.alice, ['e1', 'a1', 'c1']);
    assert.deepEqual(await drain(), FIVE.slice(2));
  });

  test('when those behind the one in flight were dropped', async () => {
    await subscribe();
    await publishApart('d', 'b', 'e', 'a', 'c');
    await acquire('w1', 'w2');
    await bus.autodrop(2);
    assert.deepEqual((await bus.state()).queued.alice, ['d1', 'a1', 'c1']);
    await bus.ack('w1', 'd1');
    assert.deepEqual(await drain(), ['a1', 'c1']);
  });

  test('though a delivery that began in no order is still in flight', async () => {
    await five({ ordered: 0 });
    await acquire('w1', 'w2');
    await subscribe();
    await bus.ack('w1', 'd1');
    assert.deepEqual(await acquire('w1', 'w3'), [], 'b1 is in flight, and it is the oldest');
    await bus.nack('w2', 'b1');
    assert.deepEqual(await drain(), FIVE.slice(1));
  });
});

describe('a subscriber that comes to ask for order', () => {
  test('gets what waits in the order in which it was accepted', async () => {
    await five({ ordered: 0 });
    await subscribe();
    assert.deepEqual(await drain(), FIVE);
  });

  test('gets nothing new before the oldest, of all that were in flight, was taken', async () => {
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

  test('has its oldest batch wait for one that is in flight behind it', async () => {
    await five({ ordered: 0 });
    await acquire('w1', 'w2');
    await subscribe();
    await bus.nack('w1', 'd1');
    assert.deepEqual(await acquire('w1', 'w3'), []);
    await bus.ack('w2', 'b1');
    assert.deepEqual(await drain(), ['d1', 'e1', 'a1', 'c1']);
  });

  test('has what waited aside come in order, whatever the order in which it went aside', async () => {
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

  test('while it fails has its oldest batch tried next, though another was to be the probe', async () => {
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

  test('and then for none has its lane wide again', async () => {
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
