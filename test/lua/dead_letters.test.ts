import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { StorageFull } from '../../src/errors.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const letters = async () => Object.keys(await readDeadLetters(redis.store));
const history = async (name: string) => {
  const { redis: commands, keys } = redis.store;
  return (await commands.lrange(keys.attempts(longName(name)), 0, -1)).map((each) => JSON.parse(each).at);
};

beforeEach(async () => {
  await redis.flush();
  await redis.store.redis.config('SET', 'maxmemory', '0');
});
afterEach(() => assertConsistent(redis.store));

/** Makes dead letters of these instant batches, one after the other, in the order of the queue. */
async function die(...names: string[]): Promise<void> {
  for (const name of names) {
    const { grants } = await bus.acquire(['w1']);
    assert.equal(grants[0]?.job, name);
    const attempt = JSON.stringify({ at: name });
    assert.equal((await bus.bury('w1', name, { attempt, reason: 'max_age' })).held, true);
  }
}

/** Makes three dead letters: alice's a1 (events e1 and e2) and a2 (e3), and bob's b1 (e4). */
async function deaths() {
  await bus.subscribe('alice', { max: 2, timeout: 0 });
  await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
  await die('a1', 'a2');
  await bus.subscribe('bob', { topics: ['gadgets'], timeout: 0 });
  await bus.publish('b', 'gadgets', ['e4']);
  await die('b1');
  await redis.store.run('retire', { q: 'main', workers: ['w1'] });
}

describe('revive', () => {
  test('makes a letter a ready batch, opened now, to be delivered at once; its history stays', async () => {
    await deaths();
    const before = await bus.nowMs();
    assert.deepEqual(await bus.revive('alice', 'a1'), [['alice', 2]]);
    assert.deepEqual(await bus.state(), {
      ...EMPTY,
      batches: { a1: { token: 'alice', attempts: 0, events: ['e1', 'e2'] } },
      index: ['a1'],
      queued: { alice: ['a1'] },
      gauges: { events: { alice: 2 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['a1'], instant: ['a1'] },
    });
    const created = Number(await redis.store.redis.lindex(redis.store.keys.batch(longName('a1')), 1));
    assert.ok(before <= created && created <= (await bus.nowMs()));
    assert.deepEqual(await letters(), ['a2', 'b1']);
    assert.deepEqual(await history('a1'), ['a1']);
  });

  test('lets it live, and die, a second time', async () => {
    await deaths();
    await bus.revive('alice', 'a1');
    await die('a1');
    assert.deepEqual((await readDeadLetters(redis.store)).a1, {
      ...{ token: 'alice', attempts: 1, events: ['e1', 'e2'] },
      ...{ reason: 'max_age', history: 2 },
    });
    await bus.revive('alice', 'a1');
    await bus.acquire(['w1']);
    assert.deepEqual(await bus.ack('w1', 'a1'), { held: true, removed: 2 });
    assert.deepEqual(await history('a1'), []);
  });

  test('takes several, each behind the one before', async () => {
    await deaths();
    assert.deepEqual(await bus.revive('', 'b1', 'a2', 'a1'), [
      ['bob', 1],
      ['alice', 1],
      ['alice', 2],
    ]);
    assert.deepEqual((await bus.state()).main.instant, ['b1', 'a2', 'a1']);
    assert.deepEqual(await letters(), []);
  });

  test('opens no batch to events: the next one goes into another', async () => {
    await deaths();
    await bus.revive('alice', 'a2');
    await bus.publish('c', 'widgets', ['e5']);
    const { batches } = await bus.state();
    assert.deepEqual(batches.a2?.events, ['e3']);
    assert.deepEqual(batches.c1?.events, ['e5']);
  });

  test('queues it behind all other batches of an ordered subscriber, and in the order asked for', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    await die('a1', 'a2');
    // The times are changed as if the clock of Redis had been set back since.
    await redis.store.redis.zincrby(redis.store.keys.batches_queued('alice'), 500_000, longName('a3'));
    await bus.revive('alice', 'a1', 'a2');
    const { redis: commands, keys } = redis.store;
    const flat = await commands.zrange(keys.batches_queued('alice'), '0', '-1', 'WITHSCORES');
    assert.deepEqual(
      flat.filter((_, i) => i % 2 === 0),
      ['a3', 'a1', 'a2'].map(longName),
    );
    const scores = flat.filter((_, i) => i % 2 === 1).map(Number);
    assert.ok(Number(scores[0]) < Number(scores[1]) && Number(scores[1]) < Number(scores[2]), `${scores}`);
    for (const name of ['a3', 'a1', 'a2']) {
      const { grants } = await bus.acquire(['w1', 'w2']);
      assert.deepEqual(
        grants.map(({ job }) => job),
        [name],
      );
      await bus.ack(String(grants[0]?.worker), name);
    }
  });

  test('is for the letters of who asks; root has all', async () => {
    await deaths();
    const before = await snapshot(redis.store);
    assert.deepEqual(await bus.revive('bob', 'a1', 'a2'), ['dead_letter_not_found', 'dead_letter_not_found']);
    assert.deepEqual(await snapshot(redis.store), before);
    assert.deepEqual(await bus.revive('bob', 'a1', 'b1'), ['dead_letter_not_found', ['bob', 1]]);
    assert.deepEqual(await bus.revive('', 'a1'), [['alice', 2]]);
  });

  test('knows neither batches nor what never was', async () => {
    await deaths();
    await bus.publish('c', 'widgets', ['e5']);
    const before = await snapshot(redis.store);
    assert.deepEqual(await bus.revive('', 'c1', 'z9'), ['dead_letter_not_found', 'dead_letter_not_found']);
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('leaves the letters of a subscriber that has left', async () => {
    await deaths();
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.revive('', 'a1', 'b1'), ['subscriber_not_found', ['bob', 1]]);
    assert.deepEqual(await letters(), ['a1', 'a2']);
  });

  test('is refused while memory is exhausted', async () => {
    await deaths();
    const before = await snapshot(redis.store);
    await redis.store.redis.config('SET', 'maxmemory', '1');
    await assert.rejects(bus.revive('alice', 'a1'), StorageFull);
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('wakes the workers', async (t) => {
    await deaths();
    const listener = await Listener.open(redis.store);
    t.after(() => listener.close());
    assert.deepEqual(await listener.during(redis.store, () => bus.revive('alice', 'a1', 'a2')), [
      'wake:main',
    ]);
    assert.deepEqual(await listener.during(redis.store, () => bus.revive('alice', 'a1')), []);
  });
});

test('a letter without events, whose batch a Ruby process left so, lives a second time, and is purged', async () => {
  await bus.subscribe('alice', { timeout: 0, max: 1 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  const { redis: commands, keys } = redis.store;
  await commands.ltrim(keys.batch(longName('a1')), 0, 2);
  await commands.hincrby(keys.gauge_events(), 'alice', -1);
  await die('a1', 'a2');
  assert.deepEqual(await bus.revive('alice', 'a1'), [['alice', 0]]);
  await die('a1');
  assert.equal(await bus.purge('alice', 'a1'), 1);
  assert.deepEqual(await letters(), ['a2']);
});

describe('purge', () => {
  test('deletes letters with all that is told of them', async () => {
    await deaths();
    assert.equal(await bus.purge('alice', 'a1'), 1);
    assert.deepEqual(await letters(), ['a2', 'b1']);
    assert.deepEqual(await history('a1'), []);
    assert.equal(await bus.purge('', 'a2', 'b1'), 2);
    assert.deepEqual(await redis.store.redis.keys('*dead*'), []);
    assert.deepEqual(await bus.state(), EMPTY);
  });

  test('is for the letters of who asks, and for letters', async () => {
    await deaths();
    await bus.publish('c', 'widgets', ['e5']);
    const before = await snapshot(redis.store);
    assert.equal(await bus.purge('bob', 'a1', 'a2', 'c1', 'z9'), 0);
    assert.equal(await bus.purge('', 'c1', 'z9'), 0);
    assert.deepEqual(await snapshot(redis.store), before);
    assert.equal(await bus.purge('bob', 'a1', 'b1'), 1);
    assert.deepEqual(await letters(), ['a1', 'a2']);
  });

  test('makes room when memory is exhausted, and for subscribers that have left', async () => {
    await deaths();
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    await redis.store.redis.config('SET', 'maxmemory', '1');
    assert.equal(await bus.purge('', 'a1', 'a2'), 2);
    assert.deepEqual(await letters(), ['b1']);
  });
});
