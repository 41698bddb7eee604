import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, beforeEach, describe, mock, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { StorageFull } from '../../src/errors.ts';
import { StorageGuard } from '../../src/publishing/storage_guard.ts';
import { infoNumber, LASTING_SHORTAGE_MS, readMemory } from '../../src/store/memory.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const MB = 1024 * 1024;
const redis = new TestStore({ maxmemory: String(20 * MB) });
const spare = new TestStore();
/** The high mark is 18 MB. */
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 2 * MB };
const FRESH_MS = 250;

let nowMs = 0;
before(() => mock.method(clock, 'monotonicMs', () => nowMs));
after(() => mock.reset());
let timesFull = 0;
let guard: StorageGuard;
/** Number of `INFO` commands that `looks` itself has sent, because Redis counts them too. */
let countsAsked = 0;

const guardOf = (store: Partition) => new StorageGuard(new Partitions(store), LIMITS, () => void timesFull++);
const fill = () => redis.store.redis.setrange('filler', 17.5 * MB, 'x');
const free = () => redis.store.redis.del('filler');

beforeEach(async () => {
  nowMs = 0;
  timesFull = 0;
  countsAsked = 0;
  await redis.flush();
  await redis.store.redis.config('RESETSTAT');
  guard = guardOf(redis.store);
});

/** Returns how often the guard has asked Redis for its memory. */
async function looks(): Promise<number> {
  const stats = await redis.store.redis.info('commandstats');
  // If the guard got its answer in this turn of the event loop, it has used the answer by the next turn.
  await setImmediate();
  return Number(/^cmdstat_info:calls=(\d+)/m.exec(stats)?.[1] ?? 0) - countsAsked++;
}

const passes = () => {
  const answer = guard.check(redis.store);
  assert.equal(answer, undefined, 'a publish does not wait');
};

/** Lets the guard look for the first time, and waits until Redis has answered. */
async function looked(): Promise<void> {
  passes();
  await until(async () => (await looks()) === 1);
}

describe('below the high mark', () => {
  test('every publish passes without waiting, the first one too', async () => {
    await looked();
    passes();
    assert.equal(timesFull, 0);
  });

  test('publishes within 250 ms share one look at the memory', async () => {
    for (let i = 0; i < 1000; i++) passes();
    await until(async () => (await looks()) === 1);
    nowMs += FRESH_MS - 1;
    for (let i = 0; i < 1000; i++) passes();
    assert.equal(await looks(), 1);
    nowMs += 1;
    for (let i = 0; i < 1000; i++) passes();
    await until(async () => (await looks()) === 2);
  });

  test('Redis is not asked while nobody publishes', async () => {
    assert.equal(await looks(), 0);
    await looked();
    nowMs += 60_000;
    assert.equal(await looks(), 1);
  });
});

/** Resolves when the guard has found memory short for a second. */
async function foundFull(): Promise<void> {
  await looked();
  await until(() => timesFull === 1);
  nowMs += LASTING_SHORTAGE_MS;
  passes();
  await until(() => timesFull === 2);
}

describe('beyond the high mark', () => {
  test('a publish is refused with the time to wait, and memory is freed', async () => {
    await fill();
    await foundFull();
    assert.throws(passes, (error: unknown) => {
      assert.ok(error instanceof StorageFull);
      assert.deepEqual([error.status, error.code, error.headers['Retry-After']], [503, 'storage_full', '2']);
      return true;
    });
  });

  test('publishes pass for a second, in which it may be buffers that Redis has not summed up', async () => {
    await fill();
    await looked();
    await until(() => timesFull === 1);
    for (nowMs = FRESH_MS; nowMs < LASTING_SHORTAGE_MS; nowMs += FRESH_MS) {
      passes();
      await until(() => timesFull === 1 + nowMs / FRESH_MS);
    }
    await free();
    passes();
    await until(async () => (await looks()) === timesFull + 1);
    nowMs += FRESH_MS;
    await fill();
    passes();
    await until(async () => (await looks()) === timesFull + 1);
    passes();
  });

  test('two moments above the mark, with a long time without publishes between, refuse nothing', async () => {
    await fill();
    await looked();
    await until(() => timesFull === 1);
    nowMs += 600_000;
    passes();
    await until(() => timesFull === 2);
    passes();
    nowMs += LASTING_SHORTAGE_MS;
    passes();
    await until(() => timesFull === 3);
    assert.throws(passes, StorageFull);
  });

  test('publishes pass again as soon as a look finds memory below the mark', async () => {
    await fill();
    await foundFull();
    await free();
    assert.throws(passes, StorageFull);
    nowMs += FRESH_MS;
    await guard.check(redis.store);
    passes();
  });

  test('every look at a full Redis asks for memory to be freed', async () => {
    await fill();
    await foundFull();
    nowMs += FRESH_MS;
    await assert.rejects(async () => guard.check(redis.store), StorageFull);
    assert.equal(timesFull, 3);
  });

  test('an old look refuses no publish: all wait for one new look', async () => {
    await fill();
    await foundFull();
    await free();
    nowMs += 60_000;
    await Promise.all(Array.from({ length: 100 }, () => guard.check(redis.store)));
    assert.equal(await looks(), 3);
  });

  test('buffers of clients do not count', async () => {
    await redis.store.redis.setrange('filler', 5 * MB, 'x');
    const reader = connect(new URL(redis.redis.url).pathname).pause();
    reader.write('*2\r\n$3\r\nGET\r\n$6\r\nfiller\r\n'.repeat(3));
    const { redis: commands } = redis.store;
    const normal = async () => infoNumber(await commands.info('memory'), 'mem_clients_normal');
    await until(async () => (await normal()) > 5 * MB);
    const { used } = await readMemory(redis.store, LIMITS);
    assert.ok(used < 8 * MB, `${used}`);
    reader.destroy();
  });
});

describe('while Redis is away', () => {
  test('a publish passes the guard, and fails later on Redis itself', async () => {
    const store = await openStore(redis.redis.url);
    guard = guardOf(store);
    await fill();
    passes();
    await until(() => timesFull === 1);
    store.redis.disconnect();
    nowMs += FRESH_MS;
    await guard.check(redis.store);
    passes();
    assert.equal(timesFull, 1);
  });
});

/** Two partitions, each on a Redis of its own. */
class Apart extends Partitions {
  override byRedis(): [Partition][] {
    return this.all.map((each) => [each]);
  }
}

test('of two Redises only the full one refuses, and only its partitions are to free memory', async () => {
  const roomy = new Partition(spare.store.redis, { index: 1 });
  const apart = new Apart(redis.store, roomy);
  const freed: number[][] = [];
  guard = new StorageGuard(apart, LIMITS, (short) => freed.push(short.map(({ index }) => index)));
  await fill();
  passes();
  await until(() => freed.length === 1);
  nowMs += LASTING_SHORTAGE_MS;
  passes();
  await until(() => freed.length === 2);
  assert.deepEqual(freed, [[0], [0]]);
  assert.throws(() => guard.check(redis.store), StorageFull);
  assert.equal(guard.check(roomy), undefined);
  assert.throws(passes, StorageFull);
  assert.deepEqual(
    ['gadgets', 'widgets'].map((name) => apart.ofTopic(name).index),
    [0, 1],
  );
  assert.throws(() => guard.checkTopic('gadgets'), StorageFull);
  assert.equal(guard.checkTopic('widgets'), undefined);
  assert.throws(() => guard.checkSubscriber('gadgets'), StorageFull);
  assert.equal(guard.checkSubscriber('widgets'), undefined);
});

test('a Redis that hangs delays no publish to another one, and no refusal there', async () => {
  const other = new Partition(spare.store.redis, { index: 1 });
  guard = new StorageGuard(new Apart(redis.store, other), LIMITS, () => void timesFull++);
  await spare.redis.kill('SIGSTOP');
  let hangs = true;
  const hanging = other.command((commands) => commands.ping()).catch(() => {});
  void hanging.then(() => {
    hangs = false;
  });
  try {
    await fill();
    await foundFull();
    assert.throws(passes, StorageFull);
    await free();
    nowMs += FRESH_MS;
    await guard.check(redis.store);
    passes();
    assert.ok(hangs, 'the other has not answered yet');
  } finally {
    await spare.redis.kill('SIGCONT');
  }
  await hanging;
});

test('no publish is refused by a Redis without a memory limit', async () => {
  await redis.store.redis.config('SET', 'maxmemory', '0');
  await fill();
  await looked();
  nowMs += FRESH_MS;
  passes();
  await redis.store.redis.config('SET', 'maxmemory', String(20 * MB));
});

test('what a client may take of a Redis is divided among its partitions', async () => {
  const others = [1, 2, 3].map((index) => new Partition(redis.store.redis, { prefix: `{${index}}:`, index }));
  const partOf = async (partitions: Partitions) => {
    guard = new StorageGuard(partitions, LIMITS, () => {});
    await until(() => guard.maxBytesOfPartition > 0);
    assert.equal(guard.maxBytes, 20 * MB);
    return guard.maxBytesOfPartition;
  };
  assert.equal(await partOf(new Partitions(redis.store)), 20 * MB);
  assert.equal(await partOf(new Partitions(redis.store, ...others)), 5 * MB);
});
