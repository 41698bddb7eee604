import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const count = (process: string, flush: number, counts: Record<string, number>) =>
  redis.store.run('count', {
    process,
    flush,
    counts: Object.entries(counts).map(([field, count]) => ({ field, count })),
  });
const counters = () => redis.store.redis.hgetall('counters');

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('count', () => {
  test('adds to what is there', async () => {
    assert.equal(await count('p', 1, { a: 2, b: 3 }), true);
    assert.equal(await count('p', 2, { a: 5, c: 1 }), true);
    assert.deepEqual(await counters(), { a: '7', b: '3', c: '1' });
  });

  test('goes on from what the Ruby Routemaster counted', async () => {
    await redis.store.redis.hset('counters', 'a', 1_000_000);
    await count('p', 1, { a: 2 });
    assert.deepEqual(await counters(), { a: '1000002' });
  });

  test('of a flush that was applied changes nothing', async () => {
    await count('p', 1, { a: 2 });
    await count('p', 2, { a: 2 });
    const before = await snapshot(redis.store);
    assert.equal(await count('p', 2, { a: 2 }), false);
    assert.equal(await count('p', 1, { a: 2 }), false);
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('keeps the numbers of processes apart, each for a day', async () => {
    await count('p', 7, { a: 1 });
    assert.equal(await count('q', 1, { a: 1 }), true);
    assert.deepEqual(await counters(), { a: '2' });
    assert.equal(await redis.store.redis.get('counters:flushed:p'), '7');
    const seconds = await redis.store.redis.ttl('counters:flushed:p');
    assert.ok(seconds > 86_300 && seconds <= 86_400);
  });

  test('takes numbers beyond 9 as numbers', async () => {
    await count('p', 9, { a: 1 });
    assert.equal(await count('p', 10, { a: 1 }), true);
    assert.equal(await count('p', 9, { a: 1 }), false);
  });
});

describe('report', () => {
  const report = (...reports: [field: string, from: number, to: number][]) =>
    redis.store.run('report', { reports: reports.map(([field, from, to]) => ({ field, from, to })) });
  const reported = () => redis.store.redis.hgetall('counters:reported');

  test('notes what was sent of each counter', async () => {
    await report(['a', 0, 5], ['b', 0, 7]);
    await report(['a', 5, 9]);
    assert.deepEqual(await reported(), { a: '9', b: '7' });
  });

  test('leaves alone what another worker has noted meanwhile', async () => {
    await report(['a', 0, 5]);
    await report(['a', 0, 4], ['b', 0, 1]);
    assert.deepEqual(await reported(), { a: '5', b: '1' });
  });
});
