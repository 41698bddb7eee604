import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Wanted } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { EMPTY_LANES } from '../../harness/scripts/state.ts';
import { pauserOf } from '../../src/store/pause.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const subscribe = (wanted: Wanted = {}) => bus.subscribe('alice', { max: 1, ...wanted });
const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const gone = (worker: string, job: string) =>
  bus.nack(worker, job, { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS, attempt: '{}', pause: 1 });

/** Pauses alice when the delivery of a1 ends. At that time a2 is still in flight, and a3 and a4 wait. */
async function paused(wanted: Wanted = {}): Promise<void> {
  await subscribe(wanted);
  await bus.publish('a', 'widgets', ['1', '2', '3', '4']);
  await acquire('w1', 'w2');
  assert.equal(await gone('w1', 'a1'), true);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

test('a subscriber with a new callback is tried at once, however long its old callback asked to wait', async () => {
  await subscribe();
  await bus.publish('a', 'widgets', ['1', '2']);
  await acquire('w1');
  await bus.nack('w1', 'a1', { delayMs: MINUTE_MS, throttleMs: MINUTE_MS, attempt: '{}' });
  assert.deepEqual(await acquire('w1', 'w2'), []);
  await subscribe();
  assert.deepEqual(await acquire('w1', 'w2'), [], 'the same callback');
  await bus.store.redis.hset('subscriber:alice', 'callback', 'https://old.example/');
  await subscribe();
  assert.deepEqual(await acquire('w1', 'w2'), ['a2', 'a1']);
});

for (const ordered of ['', 1] as const)
  test(`so is one with a failed batch alone, or first in order (ordered: ${ordered || 0})`, async () => {
    const failed = async (job: string) =>
      bus.nack('w1', job, { delayMs: MINUTE_MS, throttleMs: MINUTE_MS, attempt: '{}' });
    await subscribe({ ordered });
    await bus.publish('a', 'widgets', ordered ? ['1', '2'] : ['1']);
    await acquire('w1', 'w2');
    await failed('a1');
    await bus.store.redis.hset('subscriber:alice', 'callback', 'https://old.example/');
    await subscribe({ ordered });
    assert.deepEqual(await acquire('w1', 'w2'), ['a1'], 'a new callback');
    await failed('a1');
    await bus.pause('alice');
    await bus.resume('alice');
    assert.deepEqual(await acquire('w1', 'w2'), ['a1'], 'resumed');
  });

describe('a subscriber that answers 410 Gone', () => {
  test('is paused: no worker acquires its jobs, and all of them wait outside the queue', async () => {
    await paused();
    assert.deepEqual(await acquire('w3', 'w4'), []);
    await bus.nack('w2', 'a2', { delayMs: 1, throttleMs: 1 });
    await bus.ripen('a2');
    await bus.publish('b', 'widgets', ['5']);
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4'), []);
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.scheduled, main.instant, main.pending], [[], [], {}]);
    assert.deepEqual(lanes, { ...EMPTY_LANES, waiting: { alice: ['a1', 'a3', 'a4', 'a2', 'b1'] } });
  });

  test('has the time of the pause, set once', async () => {
    const earliest = await bus.nowMs();
    await paused();
    const { paused_at, health_points } = await bus.subscriber('alice');
    assert.ok(Number(paused_at) >= earliest && Number(paused_at) <= (await bus.nowMs()));
    assert.equal(health_points, '98');
    await gone('w2', 'a2');
    assert.equal((await bus.subscriber('alice')).paused_at, paused_at);
  });

  test('has no attempt counted for that answer', async () => {
    await paused();
    assert.equal((await bus.state()).batches.a1?.attempts, 0);
  });

  test('stays paused when its deliveries in flight are accepted, fail or die', async () => {
    await paused();
    await bus.ack('w2', 'a2');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    assert.notEqual((await bus.subscriber('alice')).paused_at, undefined);
  });

  test('still collects events: its open batch grows during the pause', async () => {
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('a', 'widgets', ['1', '2', '3']);
    await acquire('w1');
    await gone('w1', 'a1');
    await bus.publish('b', 'widgets', ['4']);
    await bus.ripen('b1');
    assert.deepEqual(await acquire('w1'), []);
    await bus.publish('c', 'widgets', ['5']);
    const { batches, current } = await bus.state();
    assert.deepEqual([batches.b1?.events, current], [['4', '5'], { alice: ['b1'] }]);
  });

  /** Reports that the callback of a2 is gone. The worker w2 had got a2 when alice's subscription was of this time. */
  const goneSince = (subscribedAt: string) => {
    const held = { worker: 'w2', job: packNamed('a2'), lease: bus.leases.get('w2') ?? 0, leaseMs: 30_000 };
    const failure = { bid: longName('a2'), delayMs: MINUTE_MS, damage: 2, throttleMs: 0, attempt: '{}' };
    return bus.store.run('nack', { q: 'main', ...held, ...failure, isUncounted: false, gone: subscribedAt });
  };

  test('is not paused if it has subscribed since, even with the same callback: the answer counts as an ordinary failure', async () => {
    await paused();
    const { subscribed_at = '' } = await bus.subscriber('alice');
    await subscribe();
    assert.deepEqual(await goneSince(subscribed_at), { held: true, paused: false });
    assert.equal((await bus.subscriber('alice')).paused_at, undefined);
    const { main, batches } = await bus.state();
    assert.deepEqual([main.scheduled, batches.a2?.attempts], [['a2'], 1]);
  });

  test('is not paused if it has left and subscribed again since', async () => {
    await paused();
    const { subscribed_at = '' } = await bus.subscriber('alice');
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await goneSince(subscribed_at), { held: true, paused: false });
    assert.deepEqual(await bus.subscriber('alice'), {});
    await subscribe();
    assert.equal((await bus.subscriber('alice')).paused_at, undefined);
  });

  test('is also paused if the time of its subscription is unknown', async () => {
    await subscribe();
    await bus.store.redis.hdel('subscriber:alice', 'subscribed_at');
    await bus.publish('a', 'widgets', ['1', '2']);
    await acquire('w1', 'w2');
    assert.deepEqual(await goneSince('0'), { held: true, paused: true });
    assert.notEqual((await bus.subscriber('alice')).paused_at, undefined);
  });

  test('does not affect other subscribers', async () => {
    await paused();
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
    await bus.publish('x', 'gadgets', ['1', '2']);
    assert.deepEqual(await acquire('w1', 'w3', 'w4'), ['x1', 'x2']);
  });
});

describe('a subscriber that was paused', () => {
  const pausedBy = async () => {
    const { paused_at, paused_by } = await bus.subscriber('alice');
    return pauserOf(paused_at, paused_by);
  };

  /** Pauses alice while a1 is in flight and a2 and a3 are queued. */
  async function pausedWith(by: 'operator' | 'subscriber', wanted: Wanted = {}): Promise<void> {
    await subscribe(wanted);
    await bus.publish('a', 'widgets', ['1', '2', '3']);
    await acquire('w1');
    assert.equal(await bus.pause('alice', by), 'ok');
  }

  for (const by of ['operator', 'subscriber'] as const) {
    test(`by the ${by} gets nothing more, keeps everything, and is resumed with all of it`, async () => {
      await pausedWith(by);
      await bus.publish('b', 'widgets', ['4']);
      assert.deepEqual(await acquire('w2', 'w3', 'w4'), []);
      await bus.ack('w1', 'a1');
      assert.deepEqual(await acquire('w1', 'w2'), []);
      const { main, lanes } = await bus.state();
      assert.deepEqual([main.scheduled, main.instant, main.pending], [[], [], {}]);
      assert.deepEqual(lanes, { ...EMPTY_LANES, waiting: { alice: ['a2', 'a3', 'b1'] } });
      const listener = await Listener.open(redis.store);
      try {
        const resume = async () => assert.equal(await bus.resume('alice', by), 'ok');
        assert.deepEqual(await listener.during(redis.store, resume), ['wake:main']);
      } finally {
        listener.close();
      }
      assert.equal(await pausedBy(), null);
      assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a2', 'a3', 'b1']);
    });
  }

  test('by an operator stays so when it subscribes again, also with another callback', async () => {
    await pausedWith('operator');
    const { paused_at } = await bus.subscriber('alice');
    await subscribe();
    await bus.store.redis.hset('subscriber:alice', 'callback', 'https://old.example/');
    await subscribe({ inFlight: 3 });
    assert.deepEqual(await acquire('w2', 'w3'), []);
    assert.equal(await pausedBy(), 'operator');
    assert.equal((await bus.subscriber('alice')).paused_at, paused_at);
  });

  test('by itself is resumed when it subscribes again', async () => {
    await pausedWith('subscriber');
    await subscribe();
    assert.equal(await pausedBy(), null);
    assert.deepEqual(await acquire('w2', 'w3'), ['a2', 'a3']);
  });

  test('by an operator can be resumed by an operator alone', async () => {
    await pausedWith('operator');
    const before = await snapshot(bus.store);
    assert.equal(await bus.resume('alice', 'subscriber'), 'paused_by_operator');
    assert.equal(await bus.pause('alice', 'subscriber'), 'ok');
    assert.deepEqual(await snapshot(bus.store), before);
    assert.equal(await bus.resume('alice', 'operator'), 'ok');
    assert.equal(await pausedBy(), null);
  });

  test('is taken over by who has more to say, and keeps the time of its first pause', async () => {
    await pausedWith('subscriber');
    await gone('w1', 'a1');
    const { paused_at } = await bus.subscriber('alice');
    assert.equal(await pausedBy(), 'subscriber');
    assert.equal(await bus.pause('alice', 'operator'), 'ok');
    assert.deepEqual([await pausedBy(), (await bus.subscriber('alice')).paused_at], ['operator', paused_at]);
  });

  test('because its callback is gone can be resumed without a new subscription, and is tried at once', async () => {
    await paused();
    assert.equal(await pausedBy(), 'callback_gone');
    assert.equal(await bus.resume('alice', 'subscriber'), 'ok');
    assert.equal((await bus.subscriber('alice')).throttled_until, undefined);
    assert.deepEqual((await acquire('w1', 'w3', 'w4')).sort(), ['a1', 'a3', 'a4']);
  });

  test('while it failed is tried at once when it is resumed', async () => {
    await subscribe();
    await bus.publish('a', 'widgets', ['1', '2']);
    await acquire('w1');
    await bus.nack('w1', 'a1', { delayMs: MINUTE_MS, throttleMs: MINUTE_MS, attempt: '{}' });
    await acquire('w1');
    await bus.pause('alice', 'operator');
    await bus.resume('alice', 'operator');
    assert.deepEqual(await acquire('w1', 'w2'), ['a2']);
  });

  test('in order is resumed with its oldest batch', async () => {
    await subscribe({ ordered: 1 });
    await bus.publish('a', 'widgets', ['1', '2', '3']);
    await bus.pause('alice', 'operator');
    assert.deepEqual(await acquire('w1', 'w2'), []);
    await bus.resume('alice', 'operator');
    assert.deepEqual(await acquire('w1', 'w2'), ['a1']);
    await bus.ack('w1', 'a1');
    assert.deepEqual(await acquire('w1', 'w2'), ['a2']);
  });

  test('and its pause ended by a process of an earlier release, can be paused by 410 as ever', async () => {
    await pausedWith('operator');
    await bus.store.redis.hdel('subscriber:alice', 'paused_at');
    await gone('w1', 'a1');
    assert.equal(await pausedBy(), 'callback_gone');
  });

  test('does not have to be there, nor paused', async () => {
    for (const by of ['operator', 'subscriber'] as const) {
      assert.equal(await bus.pause('nobody', by), 'subscriber_not_found');
      assert.equal(await bus.resume('nobody', by), 'subscriber_not_found');
    }
    await subscribe();
    const before = await snapshot(bus.store);
    assert.equal(await bus.resume('alice', 'subscriber'), 'ok');
    assert.deepEqual(await snapshot(bus.store), before);
  });

  test('is paused also when memory is exhausted, and resumed', async () => {
    await pausedWith('operator');
    await bus.store.redis.config('SET', 'maxmemory', '1');
    try {
      assert.equal(await bus.resume('alice'), 'ok');
      assert.equal(await bus.pause('alice'), 'ok');
    } finally {
      await bus.store.redis.config('SET', 'maxmemory', '0');
    }
  });
});

describe('subscribing again', () => {
  test('ends the pause: all waiting jobs return at once, and workers are woken', async () => {
    await paused();
    await bus.nack('w2', 'a2', { throttleMs: MINUTE_MS });
    await acquire('w1', 'w2', 'w3');
    const listener = await Listener.open(redis.store);
    try {
      assert.deepEqual(await listener.during(redis.store, () => subscribe()), ['wake:main']);
    } finally {
      listener.close();
    }
    const { paused_at, throttled_until } = await bus.subscriber('alice');
    assert.deepEqual([paused_at, throttled_until], [undefined, undefined]);
    assert.deepEqual((await acquire('w1', 'w2', 'w3', 'w4')).sort(), ['a1', 'a2', 'a3', 'a4']);
  });

  test('ends the pause also when a probe was scheduled', async () => {
    await subscribe();
    await bus.publish('a', 'widgets', ['1', '2', '3', '4']);
    await acquire('w1', 'w2');
    await bus.nack('w1', 'a1', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1'), []);
    assert.deepEqual((await bus.state()).main.scheduled.sort(), ['a1', 'a3'], 'a3 is the probe');
    await gone('w2', 'a2');
    await subscribe();
    assert.deepEqual((await bus.state()).main.scheduled, ['a1'], 'it has failed, and waits for its own sake');
    assert.deepEqual((await acquire('w1', 'w2', 'w3', 'w4')).sort(), ['a2', 'a3', 'a4']);
    assert.equal((await bus.subscriber('alice')).probe, undefined);
  });

  test('tries one batch first if the subscriber never accepted one', async () => {
    await paused({ proven: false });
    await subscribe({ proven: false });
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4'), ['a1']);
  });

  test('continues an ordered lane with its oldest batch', async () => {
    await paused({ ordered: 1 });
    await bus.publish('b', 'widgets', ['5']);
    assert.deepEqual(await acquire('w1', 'w2'), []);
    await subscribe();
    for (const job of ['a1', 'a2', 'a3', 'a4', 'b1']) {
      assert.deepEqual(await acquire('w1', 'w2'), [job]);
      await bus.ack('w1', job);
    }
  });

  test('changes nothing if the subscriber is not paused', async () => {
    await subscribe();
    await bus.publish('a', 'widgets', ['1', '2', '3']);
    await bus.acquire(['w1', 'w2'], { laneLimit: 1 });
    const { subscribed_at = '' } = await bus.subscriber('alice');
    const before = await snapshot(bus.store);
    await subscribe();
    await bus.store.redis.hset('subscriber:alice', { subscribed_at });
    assert.deepEqual(await snapshot(bus.store), before);
  });
});

describe('while a subscriber is paused', () => {
  test('autodrop drops its batches like others', async () => {
    await paused();
    assert.deepEqual(await bus.autodrop(2), { batches: 2, dropped: { alice: 2 } });
    await bus.ack('w2', 'a2');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    await subscribe();
    assert.equal((await acquire('w1', 'w2', 'w3')).length, 1);
  });

  test('autodrop can drop all of it', async () => {
    await paused();
    await bus.ack('w2', 'a2');
    await bus.autodrop(100);
    assert.deepEqual((await bus.state()).lanes, EMPTY_LANES);
    await bus.publish('b', 'widgets', ['5']);
    await subscribe();
    assert.deepEqual(await acquire('w1'), ['b1']);
  });

  test('it can leave: only its deliveries in flight remain', async () => {
    await paused();
    const { nowMs: untilMs } = await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.dropQueue('alice', 500, untilMs), { batches: 3, events: 3 });
    await bus.ack('w2', 'a2');
    assert.deepEqual(await acquire('w1', 'w2'), []);
    const { main, batches, lanes } = await bus.state();
    assert.deepEqual([main.index, batches, lanes], [[], {}, EMPTY_LANES]);
  });

  test('it can leave without its queue being dropped: its jobs delete the batches one by one', async () => {
    await paused();
    await bus.ack('w2', 'a2');
    assert.deepEqual(await acquire('w1'), []);
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a1', 'a3', 'a4'] });
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    for (let i = 0; i < 3; i++) {
      const [job = ''] = await acquire('w1');
      assert.equal((await bus.ack('w1', job)).held, true);
    }
    assert.deepEqual((await bus.state()).batches, {});
  });

  test('it can leave and subscribe again before its queue is dropped', async () => {
    await paused();
    await bus.ack('w2', 'a2');
    assert.deepEqual(await acquire('w1'), []);
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a1', 'a3', 'a4'] });
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await subscribe();
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a1'], 'what it had is brought back one by one');
  });
});
