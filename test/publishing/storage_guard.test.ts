import assert from 'node:assert/strict';
import { beforeEach, describe, mock, test } from 'node:test';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { StorageFull } from '../../src/errors.ts';
import { StorageGuard } from '../../src/publishing/storage_guard.ts';
import type { Store } from '../../src/store/store.ts';

const MB = 1024 * 1024;
const redis = new TestStore({ maxmemory: String(20 * MB) });
/** The high mark is 18 MB. */
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 2 * MB };
const FRESH_MS = 250;

let nowMs = 0;
let toldFull = 0;
let guard: StorageGuard;
/** How many times `looks` has asked, which Redis counts too. */
let countsAsked = 0;

const guardOf = (store: Store) => new StorageGuard(store, LIMITS, () => void toldFull++);
const fill = () => redis.store.redis.setrange('filler', 17.5 * MB, 'x');
const free = () => redis.store.redis.del('filler');

beforeEach(async () => {
  mock.restoreAll();
  mock.method(clock, 'monotonicMs', () => nowMs);
  nowMs = 0;
  toldFull = 0;
  countsAsked = 0;
  await redis.flush();
  await redis.store.redis.config('RESETSTAT');
  guard = guardOf(redis.store);
});

/** How many looks Redis has answered. */
async function looks(): Promise<number> {
  const stats = await redis.store.redis.info('commandstats');
  return Number(/^cmdstat_info:calls=(\d+)/m.exec(stats)?.[1] ?? 0) - countsAsked++;
}

const passes = () => {
  const answer = guard.check();
  assert.equal(answer, undefined, 'nobody waits');
};

/** The first look is over. */
async function looked(): Promise<void> {
  passes();
  await until(async () => (await looks()) === 1);
}

describe('below the high mark', () => {
  test('publications pass without waiting, the first one too', async () => {
    await looked();
    passes();
    assert.equal(toldFull, 0);
  });

  test('many publications are one look, and a later one is another', async () => {
    for (let i = 0; i < 1000; i++) passes();
    await until(async () => (await looks()) === 1);
    nowMs += FRESH_MS - 1;
    for (let i = 0; i < 1000; i++) passes();
    assert.equal(await looks(), 1);
    nowMs += 1;
    for (let i = 0; i < 1000; i++) passes();
    await until(async () => (await looks()) === 2);
  });

  test('nothing is asked while nobody publishes', async () => {
    assert.equal(await looks(), 0);
    await looked();
    nowMs += 60_000;
    assert.equal(await looks(), 1);
  });
});

describe('beyond the high mark', () => {
  test('publications are refused with the time to wait, and memory is to be freed', async () => {
    await fill();
    await looked();
    await until(() => toldFull === 1);
    assert.throws(passes, (error: unknown) => {
      assert.ok(error instanceof StorageFull);
      assert.deepEqual([error.status, error.code, error.headers['Retry-After']], [503, 'storage_full', '2']);
      return true;
    });
  });

  test('they pass again as soon as a look finds it below', async () => {
    await fill();
    await looked();
    await until(() => toldFull === 1);
    await free();
    assert.throws(passes, StorageFull);
    nowMs += FRESH_MS;
    await guard.check();
    passes();
  });

  test('it is said at every look that memory is to be freed', async () => {
    await fill();
    await looked();
    await until(() => toldFull === 1);
    nowMs += FRESH_MS;
    await assert.rejects(async () => guard.check(), StorageFull);
    assert.equal(toldFull, 2);
  });

  test('an old look refuses nobody: all who come wait for one new look', async () => {
    await fill();
    await looked();
    await until(() => toldFull === 1);
    await free();
    nowMs += 60_000;
    await Promise.all(Array.from({ length: 100 }, () => guard.check()));
    assert.equal(await looks(), 2);
  });
});

describe('while Redis is away', () => {
  test('publications pass, to be told by Redis itself', async () => {
    const store = await openStore(redis.redis.url);
    guard = guardOf(store);
    await fill();
    passes();
    await until(() => toldFull === 1);
    store.redis.disconnect();
    nowMs += FRESH_MS;
    await guard.check();
    passes();
    assert.equal(toldFull, 1);
  });
});

test('without a limit nothing is refused', async () => {
  await redis.store.redis.config('SET', 'maxmemory', '0');
  await fill();
  await looked();
  nowMs += FRESH_MS;
  passes();
  await redis.store.redis.config('SET', 'maxmemory', String(20 * MB));
});
