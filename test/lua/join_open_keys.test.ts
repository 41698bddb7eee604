import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { joinEvent, type Rules } from '../../harness/scripts/join_calls.ts';
import { until } from '../../harness/until.ts';
import { joinScene, PAID_AND_PACKED, TOKEN } from './join_scene.ts';

const { bus, joins, open, openKeys, publish, published, publishedFor, redis } = joinScene();

describe('open keys', () => {
  const STUCK: Rules = { ...PAID_AND_PACKED, within: 100, on_expiry: { topic: 'stuck', type: 'noop' } };
  const expired = async (atMs: number) => until(async () => (await bus.nowMs()) > atMs, { everyMs: 1 });

  test('expire in time, oldest first and as many as a call may close, and the join says so', async () => {
    // This is long enough for a slow machine, on which no key may have expired at the first look.
    const withinMs = 1000;
    await joins.put('order', { ...STUCK, within: withinMs });
    await publish(
      'a',
      joinEvent('paid', 'A', 'p1'),
      joinEvent('packed', 'B', 'k1'),
      joinEvent('paid', 'C', 'p2'),
    );
    await joins.work('order');
    const { redis: commands, keys } = redis.store;
    const due = Number(await commands.zscore(keys.joins_expiring(), TOKEN));
    assert.equal(due, ((await openKeys())[0]?.since ?? 0) + withinMs);
    const early = await joins.expire('order');
    assert.equal(early.expired, 0);
    await expired(due);
    const first = await joins.expire('order', { maxClosed: 2 });
    assert.equal(first.expired, 2);
    assert.ok(Number(await commands.zscore(keys.joins_expiring(), TOKEN)) <= (await bus.nowMs()));
    const second = await joins.expire('order', { maxClosed: 2 });
    assert.equal(second.expired, 1);
    assert.equal(await commands.zscore(keys.joins_expiring(), TOKEN), null);
    const [a, b] = await published();
    assert.deepEqual(a?.data, { join: 'order', key: 'A', events: ['p1'], counts: { paid: 1, packed: 0 } });
    assert.deepEqual([a?.topic, a?.type, a?.url], ['stuck', 'noop', 'https://shop.example.com/p1']);
    assert.deepEqual(b?.data, { join: 'order', key: 'B', events: ['k1'], counts: { paid: 0, packed: 1 } });
    assert.equal((await bus.subscriber(TOKEN)).expired, '3');
  });

  test('show the counts of sources that have the name of what every object has', async () => {
    const sources = ['constructor', '__proto__'].map((topic) => ({ topic, count: 2 }));
    await joins.put('order', { sources });
    await publish('a', joinEvent('constructor', 'A', 'c1'), joinEvent('__proto__', 'A', 'p1'));
    await joins.work('order');
    const [key] = await openKeys();
    assert.deepEqual(Object.entries(key?.counts ?? {}), [
      ['constructor', 1],
      ['__proto__', 1],
    ]);
    assert.deepEqual(key?.events, ['c1', 'p1']);
  });

  test('do not expire before what came in time is counted', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A', 'p1'));
    await joins.work('order');
    await publish('b', joinEvent('packed', 'A', 'k1'), joinEvent('packed', 'A', 'k2'));
    await expired((await bus.nowMs()) + 120);
    const reply = await joins.expire('order');
    assert.equal(reply.expired, 0);
    const { redis: commands, keys } = redis.store;
    const due = Number(await commands.zscore(keys.joins_expiring(), TOKEN));
    assert.ok(due > (await bus.nowMs()), 'it is looked at again in a moment');
    await joins.work('order');
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k1', 'k2']]);
  });

  for (const [topic, where] of [
    ['ready', 'one topic'],
    ['stuck', 'two topics'],
  ] as const)
    test(`are published before the same keys that are complete then, to ${where}`, async () => {
      await joins.put('order', {
        sources: [{ topic: 'paid', count: 2 }],
        ...{ within: 100, on_expiry: { topic, type: 'delete' } },
      });
      await publish('a', joinEvent('paid', 'A', 'p1'));
      await joins.work('order');
      await expired(((await openKeys())[0]?.since ?? 0) + 100);
      await publish('b', joinEvent('paid', 'A', 'p2'), joinEvent('paid', 'A', 'p3'));
      const { published: topics } = await joins.work('order');
      assert.deepEqual(await publishedFor(), [
        ['A', 'p1'],
        ['A', 'p2', 'p3'],
      ]);
      const counts =
        topic === 'ready'
          ? [['ready', 2]]
          : [
              ['stuck', 1],
              ['ready', 1],
            ];
      assert.deepEqual(
        topics.map(({ topic, events }) => [topic, events]),
        counts,
      );
    });

  test('expire before an event that came too late is counted', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A', 'p1'), joinEvent('packed', 'A', 'k1'));
    await joins.work('order');
    await expired(((await openKeys())[0]?.since ?? 0) + 100);
    await publish('b', joinEvent('packed', 'A', 'k2'));
    const { completed, expired: gone } = await joins.work('order');
    assert.deepEqual([completed, gone], [0, 1]);
    assert.deepEqual(await open(), { A: { counts: { paid: 0, packed: 1 }, events: ['k2'] } });
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k1']]);
  });

  test('that do not fit make the oldest one expire early', async () => {
    await joins.put('order', { ...STUCK, within: 60_000 });
    for (const [seed, key] of [
      ['a', 'A'],
      ['b', 'B'],
      ['c', 'C'],
    ] as const) {
      await publish(seed, joinEvent('paid', key, `p${key}`));
      await joins.work('order', 'w1', { maxKeys: 2 });
    }
    assert.deepEqual(Object.keys(await open()), ['B', 'C']);
    const [event] = await published();
    assert.deepEqual(event?.data, {
      ...{ join: 'order', key: 'A', events: ['pA'], counts: { paid: 1, packed: 0 }, early: true },
    });
    await publish('d', joinEvent('paid', 'B'), joinEvent('packed', 'C'));
    assert.equal((await joins.work('order', 'w1', { maxKeys: 2 })).evicted, 0, 'known keys need no room');
    const { expired: all, evicted } = await bus.subscriber(TOKEN);
    assert.deepEqual([all, evicted], ['1', '1']);
  });

  test('that expire early are opened anew by an event of the same call', async () => {
    await joins.put('order', { ...STUCK, within: 60_000 });
    for (const key of ['A', 'B', 'C']) {
      await publish(key.toLowerCase(), joinEvent('paid', key, `p${key}`));
      await joins.work('order');
    }
    await publish('d', joinEvent('packed', 'A', 'q1'), joinEvent('packed', 'A', 'q2'));
    const { completed, evicted } = await joins.work('order', 'w1', { maxKeys: 2 });
    assert.deepEqual([completed, evicted], [0, 2]);
    assert.deepEqual(await publishedFor(), [
      ['A', 'pA'],
      ['B', 'pB'],
    ]);
    assert.deepEqual(await open(), {
      C: { counts: { paid: 1, packed: 0 }, events: ['pC'] },
      A: { counts: { paid: 0, packed: 2 }, events: ['q1', 'q2'] },
    });
  });

  test('that take too many bytes make the oldest ones expire early; the joins of a client share them', async () => {
    await joins.put('order', PAID_AND_PACKED);
    await joins.put('another', { sources: [{ topic: 'x', count: 2 }], then: { topic: 'y', type: 'noop' } });
    for (const seed of ['a', 'b', 'c', 'd'])
      await publish(
        seed,
        ...Array.from({ length: 100 }, (_, n) => joinEvent('paid', `${seed}${n}${'x'.repeat(200)}`)),
      );
    let evicted = 0;
    for (let batch = 0; batch < 4; batch++) {
      const reply = await joins.work('order', 'w1', { maxBytes: 200_000 });
      evicted += reply.evicted;
    }
    await publish('e', joinEvent('paid', 'last'));
    evicted += (await joins.work('order', 'w1', { maxBytes: 200_000 })).evicted;
    const { redis: commands, keys } = redis.store;
    const bytes = Number(await commands.memory('USAGE', keys.open_keys(TOKEN)));
    assert.ok(evicted > 100 && bytes < 130_000, `${evicted} evicted, ${bytes} bytes left`);
    const left = Object.keys(await open());
    assert.ok(
      left.every((key) => !key.startsWith('a')),
      'the oldest went',
    );
  });

  test('of a join that may not publish that expire all the same', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A'));
    await joins.work('order');
    await redis.store.redis.hset('topic:stuck', 'publisher', 'other');
    await redis.store.redis.srem('topics:owned:shop', 'stuck');
    await expired(((await openKeys())[0]?.since ?? 0) + 100);
    const reply = await joins.expire('order');
    assert.deepEqual([reply.expired, reply.expiryRefusal], [1, 'claimed_by_other']);
    assert.deepEqual(await published(), []);
  });

  test('are left alone by old rules', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A'));
    await joins.work('order');
    const before = await snapshot(redis.store);
    await joins.expire('order', { version: '1' });
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('expire by a new time when that changes', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A'));
    await joins.work('order');
    const since = (await openKeys())[0]?.since ?? 0;
    await joins.put('order', { ...STUCK, within: 5000 });
    const { redis: commands, keys } = redis.store;
    assert.equal(Number(await commands.zscore(keys.joins_expiring(), TOKEN)), since + 5000);
  });
});
