import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const laneLimit = 3;
const SLOWLY = { laneLimit, tookMs: 1001 };
const QUICKLY = { laneLimit, tookMs: 1000 };

const WORKERS = Array.from({ length: 8 }, (_, i) => `w${i + 1}`);
const named = (prefix: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => `${prefix}${from + i}`);

/** The jobs that go to these workers. */
async function acquire(...workers: string[]): Promise<string[]> {
  return (await bus.acquire(workers, { laneLimit })).grants.map(({ job }) => job);
}

const lanes = async () => (await bus.state()).lanes;
const isSlow = async (token: string) => 'slow' in (await bus.subscriber(token));

/** A subscriber with so many batches: alice1, alice2, … */
async function subscriber(token: string, batches: number, how: 'slow' | 'quick' = 'slow'): Promise<void> {
  await bus.subscribe(token, { topics: [token], max: 1 });
  if (how === 'slow') await bus.store.redis.hset(`subscriber:${token}`, 'slow', 1);
  const events = Array.from({ length: batches }, (_, i) => `e${i}`);
  await bus.publish(token, token, events);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('a subscriber is slow', () => {
  test('when it took more than a second over a batch, until it takes one sooner', async () => {
    await subscriber('alice', 2, 'quick');
    assert.equal(await isSlow('alice'), false);
    await acquire('w1');
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.equal(await isSlow('alice'), true);
    await acquire('w1');
    await bus.ack('w1', 'alice2', QUICKLY);
    assert.equal(await isSlow('alice'), false);
  });

  test('and one that left is not made anew by it', async () => {
    await subscriber('alice', 1);
    await acquire('w1');
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.deepEqual(await bus.subscriber('alice'), {});
  });
});

describe('subscribers that are slow', () => {
  test('keep the width of their lane where there is room', async () => {
    await subscriber('alice', 5);
    assert.deepEqual(await acquire(...WORKERS), named('alice', 1, 3));
    assert.deepEqual((await lanes()).shares, { slow: ['w1', 'w2', 'w3'], failing: [] });
  });

  test('hold half of the workers together; the rest is for those that are quick', async () => {
    await bus.acquire(WORKERS);
    for (const token of ['alice', 'bob', 'carol']) await subscriber(token, 4);
    await subscriber('dave', 4, 'quick');
    const jobs = await acquire(...WORKERS);
    assert.deepEqual(jobs, [...named('alice', 1, 3), 'bob1', ...named('dave', 1, 3)]);
    const { shares, sharing, waiting } = await lanes();
    assert.deepEqual(shares.slow, ['w1', 'w2', 'w3', 'w4']);
    assert.deepEqual(sharing.slow, ['carol1'], 'of a lane that holds none, one waits for room');
    assert.deepEqual(waiting, {
      alice: ['alice4'],
      bob: named('bob', 2, 4),
      carol: named('carol', 2, 4),
      dave: ['dave4'],
    });
  });

  test('leave a quarter of the workers when others fail, too', async () => {
    await bus.acquire(WORKERS);
    for (const token of ['ann', 'ben', 'eve']) {
      await subscriber(token, 1, 'quick');
      await bus.store.redis.hset(`subscriber:${token}`, 'throttled_until', 1);
    }
    for (const token of ['alice', 'bob']) await subscriber(token, 3);
    assert.equal((await acquire(...WORKERS)).length, 6);
    const { sharing, shares } = await lanes();
    assert.deepEqual([shares.slow.length, shares.failing.length], [4, 2]);
    assert.deepEqual(sharing, { slow: [], failing: ['eve1'] });
  });

  test('take turns: who waits for room comes before who has had some', async () => {
    await bus.acquire(WORKERS);
    for (const token of ['alice', 'bob', 'carol']) await subscriber(token, 4);
    assert.deepEqual(await acquire(...WORKERS), [...named('alice', 1, 3), 'bob1']);
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.deepEqual(await acquire('w1'), ['carol1']);
    await bus.ack('w2', 'alice2', SLOWLY);
    assert.deepEqual(await acquire('w2'), ['alice4'], 'nobody else waits for room');
    await bus.ack('w3', 'alice3', QUICKLY);
    const { shares, inFlight } = await lanes();
    assert.deepEqual([shares.slow, inFlight], [['w1', 'w2', 'w4'], { alice: 1, bob: 1, carol: 1 }]);
  });

  test('get their width back when there is room again, twice as much with each round', async () => {
    await subscriber('alice', 12);
    const limited = { ...SLOWLY, laneLimit: 1 };
    assert.equal((await bus.acquire(WORKERS, limited)).grants.length, 1);
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.deepEqual(await acquire(...WORKERS), named('alice', 2, 3));
    await bus.ack('w1', 'alice2', SLOWLY);
    await bus.ack('w2', 'alice3', SLOWLY);
    assert.deepEqual(await acquire(...WORKERS), named('alice', 4, 6), 'and no wider than it may be');
  });

  test('wake the workers when they leave room that is waited for', async () => {
    await bus.acquire(['w1', 'w2']);
    await subscriber('alice', 1);
    await subscriber('bob', 1);
    assert.deepEqual(await acquire('w1', 'w2'), ['alice1']);
    assert.deepEqual((await lanes()).sharing.slow, ['bob1']);
    await bus.nack('w1', 'alice1', { delayMs: 60_000 });
    assert.deepEqual(await acquire('w2'), ['bob1']);
  });
});
