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

const WORKERS = Array.from({ length: 16 }, (_, i) => `w${i + 1}`);
/** Number of spare workers that a thread has for so many regular ones. No share counts them. */
const spareFor = (regular: number) => Math.ceil(regular / 3);
/** Number of live workers beside those that acquire: the spare ones. */
let idle: number;
const named = (prefix: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => `${prefix}${from + i}`);

/** Resolves with the jobs that these workers get. */
async function acquire(...workers: string[]): Promise<string[]> {
  return (await bus.acquire(workers, { laneLimit, idle })).grants.map(({ job }) => job);
}

const lanes = async () => (await bus.state()).lanes;
const isSlow = async (token: string) => 'slow' in (await bus.subscriber(token));

/** Makes a subscriber with this many batches: alice1, alice2, … */
async function subscriber(token: string, batches: number, how: 'slow' | 'quick' = 'slow'): Promise<void> {
  await bus.subscribe(token, { topics: [token], max: 1 });
  if (how === 'slow') await bus.store.redis.hset(`subscriber:${token}`, 'slow', 1);
  const events = Array.from({ length: batches }, (_, i) => `e${i}`);
  await bus.publish(token, token, events);
}

beforeEach(() => {
  idle = spareFor(WORKERS.length);
  return redis.flush();
});
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
    assert.deepEqual((await lanes()).shares, { slow: ['w1', 'w2', 'w3'], failing: [], joins: [] });
  });

  test('hold half of the regular workers together; the rest is for those that are quick', async () => {
    await bus.acquire(WORKERS, { idle });
    for (const token of ['alice', 'bob', 'carol', 'erin']) await subscriber(token, 4);
    await subscriber('dave', 4, 'quick');
    const jobs = await acquire(...WORKERS);
    const slow = [...named('alice', 1, 3), ...named('bob', 1, 3), 'carol1', 'erin1'];
    assert.deepEqual(
      jobs,
      [...slow, ...named('dave', 1, 3)],
      'the last two of eight are for lanes that hold none',
    );
    const { shares, sharing, waiting } = await lanes();
    assert.deepEqual(shares.slow.sort(), WORKERS.slice(0, 8).sort());
    assert.deepEqual(sharing.slow, []);
    assert.deepEqual(waiting, {
      alice: ['alice4'],
      bob: ['bob4'],
      carol: named('carol', 2, 4),
      erin: named('erin', 2, 4),
      dave: ['dave4'],
    });
  });

  test('leave a quarter of the regular workers when others fail, too', async () => {
    await bus.acquire(WORKERS, { idle });
    for (const token of ['ann', 'ben', 'eve', 'ida', 'joe']) {
      await subscriber(token, 1, 'quick');
      await bus.store.redis.hset(`subscriber:${token}`, 'throttled_until', 1);
    }
    for (const token of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) await subscriber(token, 1);
    assert.equal((await acquire(...WORKERS)).length, 12);
    const { sharing, shares } = await lanes();
    assert.deepEqual([shares.slow.length, shares.failing.length], [8, 4]);
    assert.deepEqual(sharing, { slow: ['i1'], failing: ['joe1'], joins: [] });
  });

  test('take turns: who waits for room comes before who has had some', async () => {
    const crew = WORKERS.slice(0, 8);
    idle = spareFor(crew.length);
    for (const token of ['alice', 'bob', 'carol', 'dave']) await subscriber(token, 3);
    assert.deepEqual(await acquire(...crew), ['alice1', 'alice2', 'bob1', 'carol1'], 'half of eight');
    assert.deepEqual(
      (await lanes()).sharing.slow,
      ['dave1'],
      'of a lane that holds none, one waits for room',
    );
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.deepEqual(await acquire('w1'), ['dave1']);
    await bus.ack('w2', 'alice2', SLOWLY);
    assert.deepEqual(await acquire('w2'), ['alice3'], 'nobody else waits for room');
    await bus.ack('w3', 'bob1', SLOWLY);
    assert.deepEqual(await acquire('w3'), ['bob2']);
    await bus.ack('w4', 'carol1', QUICKLY);
    const { shares, inFlight } = await lanes();
    assert.deepEqual([shares.slow, inFlight], [['w1', 'w2', 'w3'], { alice: 1, bob: 1, dave: 1 }]);
  });

  test('get their width back when there is room again, twice as much with each round', async () => {
    await subscriber('alice', 12);
    const limited = { idle, laneLimit: 1 };
    assert.equal((await bus.acquire(WORKERS, limited)).grants.length, 1);
    await bus.ack('w1', 'alice1', SLOWLY);
    assert.deepEqual(await acquire(...WORKERS), named('alice', 2, 3));
    await bus.ack('w1', 'alice2', SLOWLY);
    await bus.ack('w2', 'alice3', SLOWLY);
    assert.deepEqual(await acquire(...WORKERS), named('alice', 4, 6), 'and no wider than it may be');
  });

  test('wake the workers when they leave room that is waited for', async () => {
    idle = spareFor(2);
    await bus.acquire(['w1', 'w2'], { idle });
    await subscriber('alice', 1);
    await subscriber('bob', 1);
    assert.deepEqual(await acquire('w1', 'w2'), ['alice1']);
    assert.deepEqual((await lanes()).sharing.slow, ['bob1']);
    await bus.nack('w1', 'alice1', { delayMs: 60_000 });
    assert.deepEqual(await acquire('w2'), ['bob1']);
  });
});

describe('a delivery in flight for more than a second', () => {
  /** Makes the deliveries of these workers older by a minute. */
  async function age(...workers: string[]): Promise<void> {
    for (const worker of workers)
      bus.leases.set(worker, await bus.store.redis.hincrby('leases', worker, -60_000_000));
    await bus.store.redis.decrby('leases:last', 60_000_000);
  }

  /** Gives w1 to w3 deliveries to alice, who was quick before. */
  async function hanging(): Promise<void> {
    await bus.acquire(WORKERS, { idle });
    await subscriber('alice', 9, 'quick');
    assert.deepEqual(await acquire(...WORKERS), named('alice', 1, 3));
  }

  test('makes its subscriber slow, and holds a worker of the share', async () => {
    await hanging();
    await age('w1', 'w2');
    await acquire('w4');
    assert.equal(await isSlow('alice'), true);
    assert.deepEqual((await lanes()).shares, { slow: ['w1', 'w2'], failing: [], joins: [] });
  });

  test('is not noticed by a second call in the same quarter of a second', async () => {
    await hanging();
    await bus.store.redis.hset('leases', 'w1', 1);
    await bus.store.redis.set('leases:last', ((await bus.nowMs()) + 250) * 1000);
    await acquire('w4');
    assert.equal(await isSlow('alice'), false);
  });

  test('is noticed also after the clock of Redis was set back by an hour', async () => {
    const hourUs = 3_600_000_000;
    await hanging();
    for (const worker of ['w1', 'w2', 'w3']) await bus.store.redis.hincrby('leases', worker, hourUs);
    await bus.store.redis.incrby('leases:last', hourUs);
    await subscriber('bob', 2, 'quick');
    await acquire('w4');
    assert.deepEqual([await isSlow('alice'), await isSlow('bob')], [false, false]);
    // Two and a half seconds pass: all times move into the past. The numbers grow by half as much.
    for (const worker of ['w1', 'w2', 'w3', 'w4'])
      bus.leases.set(worker, await bus.store.redis.hincrby('leases', worker, -2_500_000));
    await bus.store.redis.decrby('leases:last', 2_500_000);
    await acquire('w5');
    assert.deepEqual([await isSlow('alice'), await isSlow('bob')], [true, true]);
    assert.deepEqual((await lanes()).shares.slow.sort(), ['w1', 'w2', 'w3', 'w4', 'w5']);
  });

  test('leaves the share of those that fail where it is', async () => {
    await bus.acquire(WORKERS, { idle });
    await subscriber('alice', 1, 'quick');
    await bus.store.redis.hset('subscriber:alice', 'throttled_until', 1);
    await acquire('w1');
    await age('w1');
    await acquire('w2');
    assert.deepEqual((await lanes()).shares, { slow: [], failing: ['w1'], joins: [] });
  });

  test('keeps its subscriber slow, however quickly others are accepted', async () => {
    await hanging();
    await age('w1');
    await bus.ack('w2', 'alice2', QUICKLY);
    assert.deepEqual((await acquire('w2')).length, 1);
    assert.equal(await isSlow('alice'), true);
    await bus.ack('w3', 'alice3', QUICKLY);
    assert.equal(await isSlow('alice'), true);
    await bus.ack('w1', 'alice1', SLOWLY);
    await bus.ack('w2', 'alice4', QUICKLY);
    assert.equal(await isSlow('alice'), false);
  });

  test('counts in the share also beyond its room, but leaves a quarter of it to lanes that hold none', async () => {
    await bus.acquire(WORKERS, { idle });
    for (const token of ['alice', 'bob', 'carol', 'dave']) await subscriber(token, 3, 'quick');
    assert.equal((await acquire(...WORKERS)).length, 12);
    await age(...WORKERS.slice(0, 12));
    for (const token of ['fred', 'gus', 'ida']) await subscriber(token, 2);
    assert.deepEqual(await acquire(...WORKERS.slice(12)), ['fred1', 'gus1'], 'two of eight');
    const { shares, sharing } = await lanes();
    assert.deepEqual([shares.slow.length, sharing.slow], [14, ['ida1']]);
    await subscriber('quick', 1, 'quick');
    assert.deepEqual(await acquire('w15'), ['quick1']);
    await bus.ack('w13', 'fred1', SLOWLY);
    assert.deepEqual(await acquire('w13'), ['ida1']);
  });

  test('does not bring back a subscriber that has left', async () => {
    await hanging();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await age('w1');
    await acquire('w4');
    assert.deepEqual(await bus.subscriber('alice'), {});
  });
});
