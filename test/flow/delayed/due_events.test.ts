import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type CapturedLog, capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { readDelayed } from '../../../harness/scripts/delayed.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { until } from '../../../harness/until.ts';
import { StorageFull, StorageUnavailable } from '../../../src/errors.ts';
import { DueEvents } from '../../../src/flow/delayed/due_events.ts';
import { readMemory } from '../../../src/store/memory.ts';

const MB = 1024 * 1024;
const HOUR_MS = 3_600_000;
/** The high mark is at 14 MB. */
const limits = { redisMaxBytes: 15 * MB, redisMinFreeBytes: MB, maxOutboxBytes: MB };

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const signal = new AbortController().signal;
let recorded: CapturedLog;
let counted: Record<string, number>;
let full: number;

function dueEvents(memory = limits): DueEvents {
  const count = (name: string, n: number) => {
    counted[name] = (counted[name] ?? 0) + n;
  };
  const recorder = {
    published: (topic: string, events: number) => count(`published ${topic}`, events),
    added: (subscriber: string, events: number) => count(`added ${subscriber}`, events),
    publishedLate: (lateMs: readonly number[]) => count('late', lateMs.length),
  };
  const parts = { partition: redis.store, onFull: () => full++, recorder, log: recorded.log };
  return new DueEvents({ ...parts, limits: memory });
}

const delay = (n: number) =>
  bus.delay(
    'a',
    'widgets',
    Array.from({ length: n }, (_, i) => ({ id: `e${i}`, delay: HOUR_MS })),
  );
const waiting = async () => (await readDelayed(redis.store)).widgets?.length ?? 0;

/** Fills Redis to some MB above the mark, as Redis tells only later how much of that was a buffer of this client. */
async function fill(): Promise<void> {
  const isFull = async () => (await readMemory(redis.store, limits)).used > 18 * MB;
  for (let i = 0; !(await isFull()); i++) await redis.store.redis.set(`other${i}`, 'x'.repeat(MB));
}
const others = async () => redis.store.redis.keys('other*');

beforeEach(async () => {
  await redis.flush();
  [recorded, counted, full] = [capturedLog(), {}, 0];
  await bus.subscribe('alice', { max: 1000 });
});
afterEach(() => assertConsistent(redis.store));

describe('what is due', () => {
  test('is published in as many calls as it takes, and counted', async () => {
    await delay(1000);
    await bus.hasten('widgets', HOUR_MS);
    await dueEvents().publish(signal);
    assert.equal(await waiting(), 0);
    assert.deepEqual(counted, { 'published widgets': 1000, 'added alice': 1000, late: 1000 });
  });

  test('waits while Redis stores more than the high mark, and is published afterwards', async () => {
    await delay(5);
    await bus.hasten('widgets', HOUR_MS);
    const publishing = dueEvents();
    await fill();
    await assert.rejects(publishing.publish(signal), StorageFull);
    await assert.rejects(publishing.publish(signal), StorageFull);
    assert.deepEqual([await waiting(), full], [5, 2]);
    await redis.store.redis.del(...(await others()));
    await until(() => publishing.publish(signal).then(() => true));
    assert.equal(await waiting(), 0);
  });

  test('waits while Redis has reached its own limit', async () => {
    await delay(5);
    await bus.hasten('widgets', HOUR_MS);
    await redis.store.redis.config('SET', 'maxmemory', '1');
    const publishing = dueEvents({ redisMaxBytes: 0, redisMinFreeBytes: 0, maxOutboxBytes: MB });
    await assert.rejects(publishing.publish(signal), StorageFull);
    await redis.store.redis.config('SET', 'maxmemory', '0');
    assert.deepEqual([await waiting(), full, counted], [5, 1, {}]);
  });

  test('waits when the process stops', async () => {
    await delay(5);
    await bus.hasten('widgets', HOUR_MS);
    await dueEvents().publish(AbortSignal.abort());
    assert.equal(await waiting(), 5);
  });

  test('is an error in the log if its text is gone', async () => {
    await delay(2);
    await bus.hasten('widgets', HOUR_MS);
    await redis.store.redis.hdel('delayed:events:widgets', 'e0');
    await dueEvents().publish(signal);
    const [line] = recorded.lines;
    assert.deepEqual([line?.topic, line?.id], ['widgets', 'e0']);
    await redis.store.run('sweep_delayed_held', { tokens: ['shop'] });
  });

  test('is left to the next call while Redis is away', async () => {
    const { store } = redis;
    await redis.redis.kill();
    await assert.rejects(dueEvents().publish(signal), StorageUnavailable);
    await redis.redis.restart();
    await until(() => store.redis.ping());
  });
});
