import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Wanted } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { EMPTY, EMPTY_QUEUE } from '../../harness/scripts/state.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const subscribe = (wanted: Wanted = {}) => bus.subscribe('alice', { max: 1, ...wanted });
const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const fail = (worker: string, job: string) =>
  bus.nack(worker, job, { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS, attempt: '{}' });

/** Makes alice fail to take a1. Nothing is tried for a minute: a2 is the probe then, and a3 waits in the lane. */
async function heldBack(wanted: Wanted = {}): Promise<void> {
  await subscribe(wanted);
  await bus.publish('a', 'widgets', ['1', '2', '3']);
  await acquire('w1');
  await fail('w1', 'a1');
  assert.deepEqual(await acquire('w1', 'w2'), []);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('retry_batch', () => {
  test('tries a batch at once, and no other before it is known what became of this one', async () => {
    await heldBack();
    assert.equal(await bus.retryBatch('a1'), 'ok');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a1']);
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a2', 'a3'].reverse() });
    await bus.ack('w1', 'a1');
    assert.deepEqual((await acquire('w1', 'w2')).sort(), ['a2', 'a3']);
  });

  test('tries a batch that waits in its lane', async () => {
    await heldBack();
    assert.equal(await bus.retryBatch('a3'), 'ok');
    assert.deepEqual(await acquire('w1', 'w2'), ['a3']);
    await fail('w1', 'a3');
    assert.deepEqual(await acquire('w1', 'w2'), [], 'the subscriber is held back again');
  });

  test('has an open batch delivered before its deadline', async () => {
    await subscribe({ max: 10, timeout: MINUTE_MS });
    await bus.publish('a', 'widgets', ['1']);
    assert.equal(await bus.retryBatch('a1'), 'ok');
    assert.deepEqual(await acquire('w1'), ['a1']);
  });

  test('tries the oldest batch of an ordered subscriber', async () => {
    await heldBack({ ordered: 1 });
    assert.equal(await bus.retryBatch('a3'), 'ok');
    assert.deepEqual(await acquire('w1', 'w2'), ['a1']);
  });

  test('changes nothing for a batch in flight, of a paused subscriber, of another, or that is not there', async () => {
    await heldBack();
    const refused = async (outcome: string, name: string, tokens?: string[]) => {
      const before = await snapshot(redis.store);
      assert.equal(await bus.retryBatch(name, tokens), outcome);
      assert.deepEqual(await snapshot(redis.store), before);
    };
    await refused('delivery_not_found', 'b1');
    await refused('delivery_not_found', 'a1', ['bob']);
    await bus.retryBatch('a1', ['bob', 'alice']);
    await refused('delivery_not_waiting', 'a1');
    await acquire('w1');
    await refused('delivery_not_waiting', 'a1');
    await bus.pause('alice');
    await refused('delivery_paused', 'a2');
  });

  test('changes nothing for a batch that is tried next, when its share has room', async () => {
    for (const token of ['alice', 'bob'])
      await bus.subscribe(token, { topics: [token], max: 1, proven: false });
    await bus.publish('a', 'alice', ['1']);
    await bus.publish('b', 'bob', ['2']);
    const { grants } = await bus.acquire(['w1', 'w2'], { idle: 0 });
    assert.deepEqual([grants.length, grants[0]?.job], [1, 'a1']);
    assert.deepEqual((await bus.state()).lanes.sharing.slow, ['b1']);
    const before = await snapshot(redis.store);
    assert.equal(await bus.retryBatch('b1'), 'delivery_not_waiting');
    assert.deepEqual(await snapshot(redis.store), before);
  });
});

describe('send_test', () => {
  test('queues one event for one subscriber, in a closed batch that is delivered at once', async () => {
    await bus.subscribe('alice', { max: 10, timeout: MINUTE_MS });
    await bus.subscribe('bob', {});
    assert.equal(await bus.sendTest('alice', 'e1'), 'test1');
    assert.deepEqual(await bus.state(), {
      ...EMPTY,
      batches: { test1: { token: 'alice', attempts: 0, events: ['e1'] } },
      index: ['test1'],
      queued: { alice: ['test1'] },
      gauges: { events: { alice: 1 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['test1'], instant: ['test1'] },
    });
    await bus.publish('a', 'widgets', ['e2']);
    assert.deepEqual((await bus.state()).batches.test1?.events, ['e1']);
  });

  test('comes last in the queue of an ordered subscriber', async () => {
    await subscribe({ ordered: 1 });
    await bus.publish('a', 'widgets', ['1']);
    await bus.sendTest('alice', 'e1');
    assert.deepEqual((await bus.state()).queued, { alice: ['a1', 'test1'] });
  });

  test('does nothing for a stranger', async () => {
    assert.equal(await bus.sendTest('nobody', 'e1'), undefined);
    assert.deepEqual(await bus.state(), EMPTY);
  });
});
