import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { packField, readCounts, unpackField } from '../../src/metrics/counter_hash.ts';
import { Counters } from '../../src/metrics/counters.ts';
import type { CounterName } from '../../src/metrics/families.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore({ appendonly: 'yes', appendfsync: 'always' });
const NEVER_MS = 2 ** 31 - 1;

const { log } = capturedLog();
const counting = (store: Partition = redis.store, flushIntervalMs = NEVER_MS) =>
  new Counters(new Partitions(store), { flushIntervalMs, log });

/** Resolves with the counts in Redis, by `name tag:value…`. */
async function totals(store: Partition = redis.store): Promise<Record<string, number>> {
  const shown = ({ name, tags }: { name: string; tags: object }) =>
    [name, ...Object.entries(tags).map((pair) => pair.join(':'))].join(' ');
  const counts = (await readCounts(new Partitions(store), log)).counts;
  return Object.fromEntries(counts.map((count) => [shown(count), count.value]));
}

const exist = async (topics: string[], subscribers: string[]) => {
  const { redis: raw, keys } = redis.store;
  await raw.sadd(keys.topics(), ...topics);
  await raw.sadd(keys.subscribers(), ...subscribers);
};

beforeEach(async () => {
  await redis.flush();
  await exist(['a', 'b0', 'b1', 'b2', 'late', 'widgets'], ['a', 'b']);
});

describe('a packed field', () => {
  const bytes = '92b06576656e74732e7075626c69736865649192a5746f706963a777696467657473' as const;

  test('equals that of the Ruby Routemaster', () => {
    assert.equal(packField('events.published', { topic: 'widgets' }).toString('hex'), bytes);
    assert.equal(packField('workers.scrubbed', {}).toString('hex'), '92b0776f726b6572732e736372756262656490');
  });

  test('has its tags sorted', () => {
    const field = packField('process', { type: 'web', status: 'stop' });
    assert.equal(field.toString('hex'), '92a770726f636573739292a6737461747573a473746f7092a474797065a3776562');
    assert.deepEqual(field, packField('process', { status: 'stop', type: 'web' }));
  });

  test('is read back, whether its strings are packed as text or as bytes', () => {
    const expected = { name: 'events.published', tags: { topic: 'widgets' } };
    assert.deepEqual(unpackField(Buffer.from(bytes, 'hex')), expected);
    const asBytes = bytes.replace('a777', 'c40777');
    assert.deepEqual(unpackField(Buffer.from(asBytes, 'hex')), expected);
  });

  test('is not mistaken for other values', () => {
    for (const other of [
      '',
      'ff',
      '01',
      'c0',
      '92',
      '90',
      '9201c0',
      '92a16190',
      '92a1619101',
      '92a161919201a161',
    ]) {
      const field = unpackField(Buffer.from(other, 'hex'));
      if (other === '92a16190') assert.deepEqual(field, { name: 'a', tags: {} });
      else assert.equal(field, undefined, other);
    }
  });
});

describe('counting', () => {
  test('adds to the stored counts', async () => {
    for (const counters of [counting(), counting()]) {
      counters.increment('events.added', { queue: 'a' });
      counters.increment('events.added', { queue: 'a' }, 4);
      counters.increment('events.added', { queue: 'b' }, 7);
      counters.increment('workers.scrubbed', {}, 2);
      await counters.flush();
    }
    assert.deepEqual(await totals(), {
      'events.added queue:a': 10,
      'events.added queue:b': 14,
      'workers.scrubbed': 4,
    });
  });

  test('rounds, and ignores amounts that would not make a counter grow', async () => {
    const counters = counting();
    for (const by of [1.4, 2.5, 0, -3, 0.2, -0.2, Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
      counters.increment('delivery.time', { queue: 'a', status: 'success' }, by);
    }
    await counters.flush();
    assert.deepEqual(await totals(), { 'delivery.time queue:a status:success': 4 });
  });

  test('flushes thousands of counters in several calls, and then forgets their names', async () => {
    await exist(
      Array.from({ length: 12_345 }, (_, i) => `t${i}`),
      ['a'],
    );
    const counters = counting();
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 12_345; i++) counters.increment('events.published', { topic: `t${i}` }, i);
      await counters.flush();
    }
    const all = await totals();
    assert.equal(Object.keys(all).length, 12_344);
    for (let i = 1; i < 12_345; i++) assert.equal(all[`events.published topic:t${i}`], 2 * i);
  });

  test('flushes every interval, and only if there is something to flush', async () => {
    const counters = counting(redis.store, 1);
    const calls = async () =>
      /cmdstat_evalsha:calls=(\d+)/.exec(await redis.store.redis.info('commandstats'))?.[1];
    counters.start();
    counters.increment('process', { status: 'start', type: 'web' });
    await until(async () => (await totals())['process status:start type:web'] === 1);
    const before = await calls();
    for (let turns = 0; turns < 20; turns++) await until(() => true, { everyMs: 1 });
    assert.equal(await calls(), before);
    counters.increment('process', { status: 'start', type: 'web' });
    await until(async () => (await totals())['process status:start type:web'] === 2);
    await counters.stop();
  });

  test('ends with a last flush', async () => {
    const counters = counting();
    counters.start();
    counters.increment('process', { status: 'stop', type: 'worker' });
    await counters.stop();
    assert.deepEqual(await totals(), { 'process status:stop type:worker': 1 });
  });
});

describe('reading', () => {
  test('skips fields that are not counters, with a warning', async () => {
    const { redis: raw, keys } = redis.store;
    await raw.hset(keys.counters(), 'nonsense', 1, packField('events.bytes', { topic: 'x' }), 'many');
    await raw.hset(keys.counters(), packField('events.published', { topic: 'x' }), 3);
    const { log, lines } = capturedLog();
    const [count, ...more] = (await readCounts(new Partitions(redis.store), log)).counts;
    assert.deepEqual(more, []);
    assert.equal(count?.value, 3);
    assert.deepEqual(
      lines.map(({ level, skipped }) => ({ level, skipped })),
      [{ level: 40, skipped: 2 }],
    );
  });

  test('adds up one counter packed in two ways', async () => {
    const asBytes = packField('events.published', { topic: 'widgets' })
      .toString('hex')
      .replace('a777', 'c40777');
    const { redis: raw, keys } = redis.store;
    await raw.hset(keys.counters(), Buffer.from(asBytes, 'hex'), 40);
    const counters = counting();
    counters.increment('events.published', { topic: 'widgets' }, 2);
    await counters.flush();
    assert.deepEqual(await totals(), { 'events.published topic:widgets': 42 });
  });
});

describe('a flush that fails', () => {
  for (const what of ['request', 'reply'] as const) {
    test(`still counts once if the ${what} is lost`, async (t) => {
      const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
      t.after(() => proxy.stop());
      const store = await openStore(proxy.url);
      t.after(() => store.redis.disconnect());
      const counters = counting(store);
      const expected: Record<string, number> = {};
      const count = (topic: string, by: number) => {
        counters.increment('events.published', { topic }, by);
        const name = `events.published topic:${topic}`;
        expected[name] = (expected[name] ?? 0) + by;
      };
      for (let round = 1; round <= 20; round++) {
        count('a', round);
        count(`b${round % 3}`, 1);
        if (round % 2 === 0) {
          void proxy.strike(piece(what), { end: 'cut' });
          await assert.rejects(counters.flush(), StorageUnavailable);
          assert.deepEqual(counters.notAccepted('events.published'), [], 'Redis may have added them');
          count('a', 1000);
          count('late', 1);
          await until(() => store.redis.status === 'ready');
          await redis.store.redis.config('SET', 'min-replicas-to-write', 1);
          await assert.rejects(counters.flush(), StorageUnavailable);
          assert.deepEqual(counters.notAccepted('events.published'), [], 'refused, but still in doubt');
          await redis.store.redis.config('SET', 'min-replicas-to-write', 0);
        }
        await counters.flush();
        assert.deepEqual(await totals(), expected);
      }
    });
  }

  test('loses nothing when Redis is killed and comes back', async () => {
    const { store } = redis;
    const counters = counting(store, 5);
    counters.start();
    counters.increment('events.published', { topic: 'a' }, 1);
    await counters.flush();
    await redis.redis.kill();
    counters.increment('events.published', { topic: 'a' }, 10);
    await assert.rejects(counters.flush(), StorageUnavailable);
    counters.increment('events.published', { topic: 'a' }, 100);
    await redis.redis.restart();
    await until(() => store.redis.status === 'ready');
    await until(async () => (await totals(store))['events.published topic:a'] === 111);
    await counters.stop();
    assert.deepEqual(await totals(store), { 'events.published topic:a': 111 });
  });
});

test('each partition gets the counts of its topics and subscribers, also while another is away', async (t) => {
  const other = await openStore(redis.redis.url, 'other:');
  t.after(() => other.redis.disconnect());
  await redis.store.redis.sadd(redis.store.keys.topics(), 'gadgets');
  await other.redis.sadd(other.keys.topics(), 'widgets');
  const partitions = new Partitions(redis.store, other);
  const counters = new Counters(partitions, { flushIntervalMs: NEVER_MS, log });
  const publish = (topic: string) => counters.increment('events.published', { topic });
  other.redis.disconnect();
  for (const topic of ['widgets', 'gadgets']) publish(topic);
  await assert.rejects(counters.flush(), StorageUnavailable);
  assert.deepEqual(await totals(), { 'events.published topic:gadgets': 1 });
  await until(() => other.redis.status === 'end');
  for (const topic of ['widgets', 'gadgets']) publish(topic);
  counters.increment('workers.scrubbed', {});
  await other.redis.connect();
  await counters.flush();
  assert.deepEqual(await totals(), { 'events.published topic:gadgets': 2, 'workers.scrubbed': 1 });
  assert.deepEqual(await totals(other), { 'events.published topic:widgets': 2 });
});

describe('stopping without Redis', () => {
  const away: [string, (store: Partition) => unknown][] = [
    ['away', (store) => store.redis.disconnect()],
    ['silent', () => redis.redis.kill('SIGSTOP')],
  ];
  for (const [state, interrupt] of away) {
    test(`takes a bounded time while it is ${state}, and logs what was lost without tokens`, async (t) => {
      const store = await openStore(redis.redis.url);
      t.after(() => store.redis.disconnect());
      t.after(() => redis.redis.kill('SIGCONT'));
      const { log, lines } = capturedLog();
      const counters = new Counters(new Partitions(store), { flushIntervalMs: NEVER_MS, log });
      const count = (name: CounterName, by: number) =>
        counters.increment(name, { queue: 'a-secret-token' }, by);
      count('events.added', 3);
      await interrupt(store);
      const failing = counters.flush().catch(() => {});
      count('events.added', 4);
      count('events.removed', 5);
      const startedMs = performance.now();
      await counters.stop(200);
      assert.ok(performance.now() - startedMs < 4500);
      store.redis.disconnect();
      await failing;
      assert.deepEqual(
        lines.map((line) => line.counts),
        [{ 'events.added': 7, 'events.removed': 5 }],
      );
      assert.match(
        String(lines[0]?.msg),
        /these counts, which may be missing in \/metrics; no event is lost$/,
      );
      assert.doesNotMatch(JSON.stringify(lines), /a-secret-token/);
    });
  }
});
