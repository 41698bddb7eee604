import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_QUEUE } from '../../harness/scripts/state.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const history = (name: string) => redis.store.redis.lrange(redis.store.keys.attempts(longName(name)), 0, -1);

/** Makes batches a1 and b1 of two events each; w1 delivers a1. */
async function delivering(): Promise<void> {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await bus.publish('b', 'widgets', ['e3', 'e4']);
  await bus.acquire(['w1']);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('bury', () => {
  test('moves the whole batch to the dead letters', async () => {
    await delivering();
    const created = String(await bus.createdMs('a1'));
    const earliest = await bus.nowMs();
    assert.deepEqual(await bus.bury('w1', 'a1', { attempt: '{"at":1}', reason: 'max_age' }), {
      held: true,
      buried: 2,
      dropped: 0,
      isGone: false,
    });
    assert.deepEqual(await bus.state(), {
      ...EMPTY,
      batches: { b1: { token: 'alice', attempts: 0, events: ['e3', 'e4'] } },
      index: ['b1'],
      queued: { alice: ['b1'] },
      gauges: { events: { alice: 2 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['b1'], instant: ['b1'], pendingIndex: ['w1'] },
    });
    const { redis: commands, keys } = redis.store;
    const bid = longName('a1');
    assert.deepEqual(await commands.lrange(keys.dead_letter(bid), 0, -1), [
      'alice',
      created,
      '1',
      'e1',
      'e2',
    ]);
    const { reason, died_at = '' } = await commands.hgetall(keys.dead_letter_about(bid));
    assert.equal(reason, 'max_age');
    assert.ok(Number(died_at) >= earliest && Number(died_at) <= (await bus.nowMs()));
    for (const index of [keys.dead_letters_index(), keys.dead_letters_of('alice')])
      assert.deepEqual(await commands.zrange(index, '0', '-1', 'WITHSCORES'), [bid, died_at]);
    assert.deepEqual(await commands.hgetall(keys.dead_letters_events()), { alice: '2' });
    assert.deepEqual(await history('a1'), ['{"at":1}']);
  });

  test('lowers the health of the subscriber and throttles it, like any failure', async () => {
    await delivering();
    const earliest = await bus.nowMs();
    await bus.bury('w1', 'a1', { damage: 2, throttleMs: MINUTE_MS });
    const { health_points, throttled_until, sent } = await bus.subscriber('alice');
    assert.deepEqual([health_points, sent], ['98', '1']);
    assert.ok(Number(throttled_until) >= earliest + MINUTE_MS);
  });

  test('returns the next waiting job of the lane to the queue', async () => {
    await delivering();
    await bus.acquire(['w2'], { laneLimit: 1 });
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['b1'] });
    await bus.bury('w1', 'a1');
    assert.deepEqual(await acquire('w1'), ['b1']);
  });

  test('schedules the next attempt in the lane of a failing subscriber', async () => {
    await delivering();
    await bus.acquire(['w2'], { laneLimit: 1 });
    await bus.bury('w1', 'a1', { damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1'), []);
    assert.deepEqual((await bus.state()).main.scheduled, ['b1']);
  });

  test('deletes the batch of a subscriber that has left', async () => {
    await delivering();
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.bury('w1', 'a1', { damage: 2, throttleMs: MINUTE_MS }), {
      held: true,
      buried: 0,
      dropped: 2,
      isGone: false,
    });
    assert.deepEqual((await bus.state()).index, ['b1']);
    assert.deepEqual(await readDeadLetters(redis.store), {});
    assert.deepEqual(await history('a1'), []);
    assert.deepEqual(await bus.subscriber('alice'), {}, 'and brings no subscriber back');
  });

  test('deletes the job of a batch that no longer exists', async () => {
    await delivering();
    const { redis: commands, keys } = redis.store;
    const bid = longName('a1');
    await commands.del(keys.batch(bid));
    await commands.zrem(keys.batches_index(), bid);
    await commands.zrem(keys.batches_queued('alice'), bid);
    await commands.hset(keys.gauge_events(), 'alice', 2);
    await commands.hset(keys.gauge_batches(), 'alice', 1);
    assert.deepEqual(await bus.bury('w1', 'a1', { damage: 2 }), {
      held: true,
      buried: 0,
      dropped: 0,
      isGone: false,
    });
    assert.deepEqual((await bus.state()).main.index, ['b1']);
    assert.deepEqual(await readDeadLetters(redis.store), {});
    assert.equal((await bus.subscriber('alice')).health_points, '100');
  });

  test('lets the next delivery to a new subscriber start', async () => {
    await bus.subscribe('alice', { max: 1, proven: false });
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'], proven: false });
    await bus.publish('a', 'widgets', ['e']);
    await bus.publish('b', 'gadgets', ['e']);
    assert.deepEqual(
      (await bus.acquire(['w1', 'w2'], { idle: 0 })).grants.map(({ job }) => job),
      ['a1'],
    );
    await bus.bury('w1', 'a1');
    assert.deepEqual(await acquire('w1'), ['b1']);
  });
});

describe('the history of a batch', () => {
  test('has the outcome of each attempt, the latest last', async () => {
    await delivering();
    await bus.nack('w1', 'a1', { attempt: 'first' });
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { attempt: 'second', pause: 1 });
    await bus.subscribe('alice', { max: 2 });
    await bus.acquire(['w1', 'w2']);
    const worker = (await bus.state()).main.pending.w1?.[0] === 'a1' ? 'w1' : 'w2';
    await bus.bury(worker, 'a1', { attempt: 'third' });
    assert.deepEqual(await history('a1'), ['first', 'second', 'third']);
  });

  test('has the first attempt and the latest nineteen', async () => {
    await delivering();
    for (let n = 1; n <= 24; n++) {
      await bus.nack('w1', 'a1', { attempt: `${n}` });
      assert.deepEqual(await acquire('w1'), ['a1']);
    }
    await bus.bury('w1', 'a1', { attempt: 'the last' });
    const kept = Array.from({ length: 18 }, (_, i) => `${i + 7}`);
    assert.deepEqual(await history('a1'), ['1', ...kept, 'the last']);
  });

  test('omits a delivery that was given back untried', async () => {
    await delivering();
    await bus.nack('w1', 'a1');
    assert.deepEqual(await history('a1'), []);
  });

  test('is deleted with the batch when it is accepted or dropped', async () => {
    await delivering();
    await bus.nack('w1', 'a1', { attempt: '{}' });
    await bus.acquire(['w1', 'w2']);
    await bus.ack('w1', 'a1');
    await bus.nack('w2', 'b1', { attempt: '{}' });
    await bus.autodrop(1);
    assert.deepEqual(await redis.store.redis.keys('attempts:*'), []);
  });
});
