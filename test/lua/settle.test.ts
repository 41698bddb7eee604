import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

/** Makes a batch `a1` of two events that w1 delivers, and a batch `b1` that waits. */
async function delivering(): Promise<void> {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await bus.publish('b', 'widgets', ['e3', 'e4']);
  await bus.acquire(['w1']);
}

const due = async (name: string) =>
  Number(await bus.store.redis.zscore('jobs:scheduled:main', packNamed(name)));
/**
 * Runs `call`, and checks that the time `at` is `afterMs` after the call, by Redis's clock. Resolves with its result.
 */
async function within<T>(call: () => Promise<T>, afterMs: number, at: () => Promise<number>): Promise<T> {
  const earliest = (await bus.nowMs()) + afterMs;
  const result = await call();
  const found = await at();
  assert.ok(
    earliest <= found && found <= (await bus.nowMs()) + afterMs,
    `${found} is ${afterMs} ms from now`,
  );
  return result;
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('ack', () => {
  test('forgets the job, deletes the batch with its gauges, and credits the subscriber', async () => {
    await delivering();
    await bus.store.redis.hset('subscriber:alice', 'health_points', 90, 'throttled_until', 1);
    assert.deepEqual(await bus.ack('w1', 'a1', { heal: 3 }), { held: true, removed: 2 });
    assert.deepEqual(await bus.state(), {
      ...EMPTY,
      batches: { b1: { token: 'alice', attempts: 0, events: ['e3', 'e4'] } },
      index: ['b1'],
      queued: { alice: ['b1'] },
      gauges: { events: { alice: 2 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['b1'], instant: ['b1'], pendingIndex: ['w1'] },
    });
    const { sent, health_points, throttled_until } = await bus.subscriber('alice');
    assert.deepEqual(
      [sent, health_points, throttled_until],
      ['3', '93', undefined],
      'it had taken one before',
    );
  });

  test('goes with the call that acquires the next', async () => {
    await delivering();
    const finished = [{ worker: 'w1', job: 'a1', heal: 3 }];
    const { grants, acks, readyJobs } = await bus.acquire(['w1'], { finished });
    assert.deepEqual(
      [acks, grants.map(({ worker, job }) => [worker, job]), readyJobs],
      [[1, 2], [['w1', 'b1']], 0],
    );
    assert.deepEqual((await bus.state()).main, {
      ...EMPTY_QUEUE,
      index: ['b1'],
      pending: { w1: ['b1'] },
      pendingIndex: ['w1'],
    });
    assert.equal((await bus.subscriber('alice')).sent, '3');
  });

  test('goes with it for each that holds its job, whatever others believe to hold', async () => {
    await delivering();
    await bus.acquire(['w2']);
    const finished = [
      { worker: 'w1', job: 'a1', lease: 77 },
      { worker: 'w2', job: 'b1' },
      { worker: 'w3', job: 'none1', lease: 1 },
    ];
    const { grants, acks } = await bus.acquire(['w1', 'w2', 'w3'], { finished });
    assert.deepEqual(acks, [0, 0, 1, 2, 0, 0]);
    assert.deepEqual(
      grants.map(({ worker, job, batch }) => [worker, job, batch?.[2]]),
      [['w1', 'a1', '1']],
      'which it gets again',
    );
  });

  test('tells nobody else of what it brings back into the lane, which goes to who asks', async () => {
    await delivering();
    assert.deepEqual((await bus.acquire(['w2'], { laneLimit: 1 })).grants, []);
    const listener = await Listener.open(redis.store);
    after(() => listener.close());
    const finished = [{ worker: 'w1', job: 'a1' }];
    const call = async () => {
      const { grants } = await bus.acquire(['w1'], { laneLimit: 1, finished });
      assert.deepEqual(
        grants.map(({ job }) => job),
        ['b1'],
      );
    };
    assert.deepEqual(await listener.during(redis.store, call), []);
  });

  test('tells others of what it brings back beyond what who asks takes', async () => {
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'], proven: false });
    await bus.publish('b', 'gadgets', ['1', '2', '3', '4']);
    assert.equal((await bus.acquire(['w1', 'w2', 'w3'])).grants.length, 1);
    const listener = await Listener.open(redis.store);
    after(() => listener.close());
    const finished = [{ worker: 'w1', job: 'b1' }];
    const call = async () => assert.equal((await bus.acquire(['w1'], { finished })).readyJobs, 2);
    assert.deepEqual(await listener.during(redis.store, call), ['wake:main']);
  });

  test('of the last batch leaves nothing: gauges have no field, the index no key', async () => {
    await delivering();
    await bus.ack('w1', 'a1');
    await bus.acquire(['w1']);
    await bus.ack('w1', 'b1');
    assert.deepEqual(await bus.state(), { ...EMPTY, main: { ...EMPTY_QUEUE, pendingIndex: ['w1'] } });
    assert.equal((await bus.subscriber('alice')).sent, '5');
  });

  test('heals up to 100 points and no further', async () => {
    await delivering();
    await bus.ack('w1', 'a1', { heal: 50 });
    assert.equal((await bus.subscriber('alice')).health_points, '100');
  });

  test('of a batch whose subscriber has left brings no subscriber back', async () => {
    await delivering();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.ack('w1', 'a1'), { held: true, removed: 2 });
    assert.deepEqual(await bus.subscriber('alice'), {});
  });

  test('of a batch whose subscriber has left and come back counts for it: it is the same client', async () => {
    await delivering();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await bus.subscribe('alice', { proven: false });
    assert.deepEqual(await bus.ack('w1', 'a1'), { held: true, removed: 2 });
    assert.equal((await bus.subscriber('alice')).sent, '2');
  });

  test('of a job that delivers nothing forgets it', async () => {
    await bus.enqueue('scrub');
    await bus.acquire(['x1'], { q: 'aux' });
    assert.deepEqual(await bus.ack('x1', 'scrub', { q: 'aux' }), { held: true, removed: 0 });
    assert.deepEqual((await bus.state()).aux, { ...EMPTY_QUEUE, pendingIndex: ['x1'] });
    assert.equal(await bus.enqueue('scrub'), true);
  });

  test('counts beside a lost delivery of a batch that was open once', async () => {
    await bus.subscribe('alice', { max: 2 });
    for (const [seed, event] of [
      ['a', 'e1'],
      ['b', 'e2'],
    ] as const)
      await bus.publish(seed, 'widgets', [event]);
    await bus.acquire(['w1']);
    await bus.enqueue('scrub');
    await bus.acquire(['x1'], { q: 'aux' });
    const finished = [
      { worker: 'w1', job: 'a1', lease: 77 },
      { worker: 'x1', job: 'scrub' },
    ];
    const { acks } = await bus.acquire(['x1'], { q: 'aux', finished });
    assert.deepEqual(acks, [0, 0, 1, 0]);
  });

  test('a second time, as its reply was lost, changes nothing', async () => {
    await delivering();
    await bus.ack('w1', 'a1');
    const before = await snapshot(bus.store);
    assert.deepEqual(await bus.ack('w1', 'a1'), { held: false, removed: 0 });
    assert.deepEqual(await snapshot(bus.store), before);
  });
});

describe('nack', () => {
  test('after a delay puts the job back to scheduled; its batch stays closed and keeps its attempts', async () => {
    await delivering();
    const nack = () => bus.nack('w1', 'a1', { delayMs: 5000, damage: 2, throttleMs: 3000 });
    assert.equal(await within(nack, 5000, () => due('a1')), true);
    const state = await bus.state();
    assert.deepEqual(state.batches.a1, { token: 'alice', attempts: 1, events: ['e1', 'e2'] });
    assert.deepEqual(state.current, {});
    assert.deepEqual(state.gauges, { events: { alice: 4 }, batches: { alice: 2 } });
    assert.deepEqual(state.main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'b1'],
      scheduled: ['a1'],
      instant: ['b1'],
      pendingIndex: ['w1'],
    });
  });

  test('damages the subscriber’s health, to 0 at the worst, and throttles it', async () => {
    await delivering();
    const throttledUntil = async () => Number((await bus.subscriber('alice')).throttled_until);
    await within(() => bus.nack('w1', 'a1', { damage: 2, throttleMs: 3000 }), 3000, throttledUntil);
    assert.equal((await bus.subscriber('alice')).health_points, '98');
    await bus.store.redis.hdel('subscriber:alice', 'throttled_until');
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { damage: 99 });
    assert.equal((await bus.subscriber('alice')).health_points, '0');
    assert.equal((await bus.subscriber('alice')).throttled_until, undefined);
  });

  test('does not cut short the patience that another failure was asked for', async () => {
    await delivering();
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', (await bus.nowMs()) + 60_000);
    const before = (await bus.subscriber('alice')).throttled_until;
    await bus.nack('w1', 'a1', { damage: 2, throttleMs: 24 });
    assert.equal((await bus.subscriber('alice')).throttled_until, before);
  });

  test('throttles though it does not damage, as where the operator set the damage to 0', async () => {
    await delivering();
    await bus.nack('w1', 'a1', { delayMs: 60_000, throttleMs: 60_000 });
    assert.equal((await bus.subscriber('alice')).health_points, '100');
    assert.deepEqual((await bus.acquire(['w1'])).grants, []);
  });

  test('at once makes the job instant, before the others', async () => {
    await delivering();
    assert.equal(await bus.nack('w1', 'a1'), true);
    const state = await bus.state();
    assert.deepEqual(state.main.instant, ['a1', 'b1']);
    assert.deepEqual(state.main.pending, {});
    const { health_points, throttled_until } = await bus.subscriber('alice');
    assert.deepEqual([health_points, throttled_until], ['100', undefined]);
  });

  test('after a failure, the next attempt is counted when the job is acquired again', async () => {
    await delivering();
    await bus.nack('w1', 'a1', { attempt: '{}' });
    const { grants } = await bus.acquire(['w2']);
    assert.deepEqual([grants[0]?.job, grants[0]?.batch?.[2]], ['a1', '2']);
  });

  test('of a job that was only given back does not count as an attempt', async () => {
    await delivering();
    await bus.nack('w1', 'a1');
    const { grants } = await bus.acquire(['w2']);
    assert.deepEqual([grants[0]?.job, grants[0]?.batch?.[2]], ['a1', '1']);
  });

  test('deletes the job of a batch that no longer exists', async () => {
    await delivering();
    await bus.store.redis.del(`batch:${longName('a1')}`);
    await bus.store.redis.zrem('batches:index', longName('a1'));
    await bus.store.redis.zrem('batches:index:alice', longName('a1'));
    await bus.store.redis.hset('batches:gauges:event', 'alice', 2);
    await bus.store.redis.hset('batches:gauges:batch', 'alice', 1);
    assert.equal(await bus.nack('w1', 'a1', { delayMs: 100, damage: 2, throttleMs: 100 }), true);
    assert.deepEqual((await bus.state()).main, {
      ...EMPTY_QUEUE,
      index: ['b1'],
      instant: ['b1'],
      pendingIndex: ['w1'],
    });
    assert.equal((await bus.subscriber('alice')).health_points, '100');
  });

  test('of a batch whose subscriber has left brings no subscriber back', async () => {
    await delivering();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.equal(await bus.nack('w1', 'a1', { delayMs: 100, damage: 2, throttleMs: 100 }), true);
    assert.deepEqual(await bus.subscriber('alice'), {});
  });

  test('of a job that delivers nothing schedules it', async () => {
    await bus.enqueue('monitor');
    await bus.acquire(['x1'], { q: 'aux' });
    assert.equal(await bus.nack('x1', 'monitor', { q: 'aux', delayMs: 30_000 }), true);
    assert.deepEqual((await bus.state()).aux, {
      ...EMPTY_QUEUE,
      index: ['monitor'],
      scheduled: ['monitor'],
      pendingIndex: ['x1'],
    });
  });
});

describe('from anybody but the worker that holds the job', () => {
  const others: Record<string, () => Promise<unknown>> = {
    'ack changes nothing': () => bus.ack('w2', 'a1'),
    'ack of another job changes nothing': () => bus.ack('w1', 'b1'),
    'ack on another queue changes nothing': () => bus.ack('w1', 'a1', { q: 'aux' }),
    'nack changes nothing': () => bus.nack('w2', 'a1', { delayMs: 10, damage: 2, throttleMs: 10 }),
    'nack of another job changes nothing': () => bus.nack('w1', 'b1', { damage: 2, throttleMs: 10 }),
    'nack on another queue changes nothing': () => bus.nack('w1', 'a1', { q: 'aux' }),
  };
  for (const [title, call] of Object.entries(others)) {
    test(title, async () => {
      await delivering();
      const before = await snapshot(bus.store);
      const answer = await call();
      assert.ok(answer === false || (answer as { held: boolean }).held === false);
      assert.deepEqual(await snapshot(bus.store), before);
    });
  }

  test('nothing changes when the job was scrubbed and is somebody else’s', async () => {
    await delivering();
    await bus.scrub(-1);
    await bus.acquire(['w2']);
    const before = await snapshot(bus.store);
    assert.equal((await bus.ack('w1', 'a1')).held, false);
    assert.equal(await bus.nack('w1', 'a1', { delayMs: 10 }), false);
    assert.deepEqual(await snapshot(bus.store), before);
    assert.deepEqual(await bus.ack('w2', 'a1'), { held: true, removed: 2 });
  });
});
