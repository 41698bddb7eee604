import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let listener: Listener;

beforeEach(async () => {
  await redis.flush();
  listener = await Listener.open(redis.store);
});
afterEach(() => listener.close());

const announced = async (call: () => Promise<unknown>) =>
  (await listener.during(redis.store, call)).map((message) => message.slice('wake:'.length)).sort();

describe('main is announced', () => {
  test('once a call, however many batches became ready', async () => {
    await bus.subscribe('alice', { max: 1 });
    assert.deepEqual(await announced(() => bus.publish('a', 'widgets', ['e1', 'e2', 'e3'])), ['main']);
  });

  test('when a batch fills up, and not when it takes an event more', async () => {
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('a', 'widgets', ['e1']);
    assert.deepEqual(await announced(() => bus.publish('b', 'widgets', ['e2'])), []);
    assert.deepEqual(await announced(() => bus.publish('c', 'widgets', ['e3'])), ['main']);
  });

  test('when deadlines come, jobs are given back, or workers die', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['e1']);
    assert.deepEqual(await announced(() => bus.schedule()), []);
    assert.deepEqual(await announced(() => bus.ripen('a1')), ['main']);
    await bus.acquire(['w1']);
    assert.deepEqual(await announced(() => bus.nack('w1', 'a1')), ['main']);
    await bus.acquire(['w1']);
    assert.deepEqual(await announced(() => bus.scrub(-1)), ['main']);
  });

  test('by an acquire that cuts a batch, unless it assigns the rest too', async () => {
    for (const [seed, workers, channels] of [
      ['a', ['w1'], ['main']],
      ['b', ['w2', 'w3', 'w4'], []],
    ] as const) {
      await bus.subscribe('alice', { max: 100 });
      await bus.publish(seed, 'widgets', ['e1', 'e2']);
      await bus.subscribe('alice', { max: 1 });
      await bus.ripen(`${seed}1`);
      const acquire = () => bus.acquire([...workers], { seed: `${seed}cut` });
      assert.deepEqual(await announced(acquire), channels);
      await bus.acquire(['w5']);
    }
  });
});

test('aux is announced when a job is put, and not when the queue had it', async () => {
  assert.deepEqual(await announced(() => bus.enqueue('scrub')), ['aux']);
  assert.deepEqual(await announced(() => bus.enqueue('scrub')), []);
});

describe('due is announced', () => {
  test('when a job is scheduled ahead of all others', async () => {
    await bus.subscribe('alice', { timeout: 9000 });
    await bus.subscribe('bob', { topics: ['gadgets'], timeout: 90_000 });
    await bus.subscribe('carol', { topics: ['gizmos'], timeout: 100 });
    assert.deepEqual(await announced(() => bus.publish('a', 'widgets', ['e'])), ['due']);
    assert.deepEqual(await announced(() => bus.publish('b', 'gadgets', ['e'])), []);
    assert.deepEqual(await announced(() => bus.publish('c', 'gizmos', ['e'])), ['due']);
  });

  test('by a nack that comes before all others', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1', 'w2']);
    assert.deepEqual(await announced(() => bus.nack('w1', 'a1', { delayMs: 50_000 })), ['due']);
    assert.deepEqual(await announced(() => bus.nack('w2', 'a2', { delayMs: 90_000 })), []);
  });

  test('by a trigger that is to be moved, so that a worker moves it in a second', async () => {
    await putTrigger(redis.store, 'daily', { nextAt: (await bus.nowMs()) + 86_400_000 });
    const step = { limits: { step: 'leave' } } as const;
    assert.deepEqual(await announced(() => putTrigger(redis.store, 'daily', step)), ['due']);
  });

  test('when a delivery is put off as its subscriber is throttled', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { delayMs: 90_000, damage: 2, throttleMs: 1000 });
    assert.deepEqual(await announced(() => bus.acquire(['w1'])), ['due']);
  });
});
