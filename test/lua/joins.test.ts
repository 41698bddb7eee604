import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, joinEvent, type Rules } from '../../harness/scripts/join_calls.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { until } from '../../harness/until.ts';
import { type OpenKey, readOpenKeys } from '../../src/flow/join_report.ts';
import { joinToken } from '../../src/join_token.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);
const TOKEN = joinToken('order', CLIENT);

const PAID_AND_PACKED: Rules = {
  sources: [
    { topic: 'paid', count: 1 },
    { topic: 'packed', count: 2 },
  ],
};

/** Publishes these events in one call, so that they share a batch. */
const publish = (seed: string, ...events: string[]) =>
  bus.publishAll(seed, ...events.map((text): Published => [JSON.parse(text).topic, 'pub', [text]]));

interface JoinedEvent {
  id: string;
  topic: string;
  type: string;
  url: string;
  data: { join: string; key: string; events: string[]; counts?: Record<string, number>; early?: boolean };
}

/** Resolves with the events that the joins have published so far, as the subscriber `office` will get them. */
async function published(): Promise<JoinedEvent[]> {
  const { batches, queued } = await bus.state();
  const names = queued.office ?? [];
  return names.flatMap((name) =>
    (batches[name]?.events ?? []).map((text) => JSON.parse(text) as JoinedEvent),
  );
}
const publishedFor = async () => (await published()).map(({ data }) => [data.key, ...data.events]);

async function openKeys(): Promise<OpenKey[]> {
  const { rules } = await joins.find('order');
  return redis.store.command((commands, keys) =>
    readOpenKeys(commands, keys, { token: TOKEN, ...rules }, 100),
  );
}
const open = async () =>
  Object.fromEntries((await openKeys()).map(({ key, counts, events }) => [key, { counts, events }]));

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('office', { topics: ['ready', 'stuck'], timeout: 600_000, max: 10_000 });
});
afterEach(async () => {
  await assertConsistent(redis.store);
  await assertNothingToSweep(redis.store);
});

describe('a join', () => {
  test('publishes for a key when each source has reached its count, and the counted events leave the queue', async () => {
    await joins.put('order', PAID_AND_PACKED);
    await publish(
      'a',
      joinEvent('packed', 'A', 'k1'),
      joinEvent('paid', 'A', 'p1'),
      joinEvent('packed', 'B', 'k2'),
    );
    const first = await joins.work('order');
    assert.deepEqual([first.outcome, first.taken, first.isDone, first.completed], ['counted', 3, true, 0]);
    assert.deepEqual(await open(), {
      A: { counts: { paid: 1, packed: 1 }, events: ['p1', 'k1'] },
      B: { counts: { paid: 0, packed: 1 }, events: ['k2'] },
    });
    await publish('b', joinEvent('packed', 'A', 'k3'));
    const { completed, published: topics } = await joins.work('order');
    assert.equal(completed, 1);
    const [event, ...more] = await published();
    assert.deepEqual(more, []);
    assert.deepEqual(
      { ...event, id: '', t: 0 },
      {
        ...{ id: '', topic: 'ready', type: 'update', url: 'https://shop.example.com/k3', t: 0 },
        data: { join: 'order', key: 'A', events: ['p1', 'k1', 'k3'] },
      },
    );
    const bytes = Buffer.byteLength(JSON.stringify(event));
    assert.deepEqual(topics, [{ topic: 'ready', events: 1, bytes, subscribers: 'office' }]);
    assert.deepEqual(Object.keys(await open()), ['B']);
    const { queued, main, gauges } = await bus.state();
    assert.deepEqual([queued[TOKEN], main.pending, gauges.events], [undefined, {}, { office: 1 }]);
    const { sent, completed: total } = await bus.subscriber(TOKEN);
    assert.deepEqual([sent, total], ['4', '1']);
  });

  test('keeps what is more than a count for the next time', async () => {
    await joins.put('order', PAID_AND_PACKED);
    const events = ['k1', 'k2', 'k3', 'k4', 'k5'].map((id) => joinEvent('packed', 'A', id));
    await publish('a', ...events, joinEvent('paid', 'A', 'p1'));
    await joins.work('order');
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k1', 'k2']]);
    assert.deepEqual(await open(), { A: { counts: { paid: 0, packed: 3 }, events: ['k3', 'k4', 'k5'] } });
    await publish('b', joinEvent('paid', 'A', 'p2'), joinEvent('paid', 'A', 'p3'));
    await joins.work('order');
    assert.deepEqual((await publishedFor()).slice(1), [['A', 'p2', 'k3', 'k4']]);
    assert.deepEqual(await open(), { A: { counts: { paid: 1, packed: 1 }, events: ['p3', 'k5'] } });
  });

  test('keeps the last 100 ids of a key, and counts all events', async () => {
    await joins.put('order', {
      sources: [
        { topic: 'paid', count: 1 },
        { topic: 'packed', count: 150 },
      ],
    });
    const ids = Array.from({ length: 160 }, (_, n) => `k${n + 1}`);
    await publish('a', ...ids.slice(0, 80).map((id) => joinEvent('packed', 'A', id)));
    await publish('b', ...ids.slice(80).map((id) => joinEvent('packed', 'A', id)));
    while ((await bus.state()).queued[TOKEN]) await joins.work('order');
    assert.deepEqual(await open(), { A: { counts: { paid: 0, packed: 160 }, events: ids.slice(60) } });
    await publish('c', joinEvent('paid', 'A', 'p1'));
    await joins.work('order');
    // A key keeps 100 ids: the oldest gave way to that of the payment.
    assert.deepEqual(await publishedFor(), [['A', 'p1', ...ids.slice(61, 150)]]);
    assert.deepEqual(await open(), { A: { counts: { paid: 0, packed: 10 }, events: ids.slice(150) } });
  });

  test('gives each event that it publishes an id of its own, also when it is made again', async () => {
    const ids = new Set<string>();
    for (let round = 0; round < 2; round++) {
      await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
      for (const seed of ['a', 'b']) {
        await publish(seed, joinEvent('paid', 'A'), joinEvent('paid', 'A'), joinEvent('paid', 'B'));
        await joins.work('order');
      }
      await redis.store.run('remove_subscriber', { token: TOKEN, series: [] });
    }
    for (const each of await published()) ids.add(each.id);
    assert.equal(ids.size, 12);
    for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/);
  });

  test('writes keys and URLs as JSON, whatever they are', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    const keys = ['a"b\\c/d', 'é😀', '\u0000\n\u007f', '\u2028', ' ', '</script>'];
    await publish('a', ...keys.map((key) => joinEvent('paid', key)));
    await joins.work('order');
    assert.deepEqual(
      (await published()).map(({ data }) => data.key),
      keys,
    );
  });

  test('counts neither events without a key nor those of topics that are no source any more', async () => {
    await joins.put('order', PAID_AND_PACKED);
    await publish(
      'a',
      joinEvent('paid', 'A', 'p1'),
      joinEvent('packed', null),
      joinEvent('packed', 'A', 'k1'),
    );
    await joins.put('order', { sources: [{ topic: 'packed', count: 2 }] });
    const { unkeyed, taken } = await joins.work('order');
    assert.deepEqual([unkeyed, taken], [1, 3]);
    assert.deepEqual(await open(), { A: { counts: { packed: 1 }, events: ['k1'] } });
    assert.equal((await bus.subscriber(TOKEN)).unkeyed, '1');
  });

  test('that is changed keeps what it has counted of the sources that stay', async () => {
    await joins.put('order', PAID_AND_PACKED);
    await publish('a', joinEvent('paid', 'A', 'p1'), joinEvent('packed', 'A', 'k1'));
    await joins.work('order');
    const changed = await joins.put('order', {
      sources: [
        { topic: 'packed', count: 2 },
        { topic: 'sent', count: 1 },
      ],
    });
    assert.equal(changed.outcome, 'changed');
    assert.deepEqual(await open(), { A: { counts: { packed: 1, sent: 0 }, events: ['k1'] } });
    await publish('b', joinEvent('sent', 'A', 's1'), joinEvent('paid', 'A'), joinEvent('packed', 'A', 'k2'));
    await joins.work('order');
    assert.deepEqual(await publishedFor(), [['A', 'k1', 'k2', 's1']]);
    assert.deepEqual(await open(), {});
  });

  test('that is removed leaves nothing behind, and what is queued for it is deleted', async () => {
    await joins.put('order', { ...PAID_AND_PACKED, on_expiry: { topic: 'stuck', type: 'noop' } });
    await publish('a', joinEvent('paid', 'A'));
    await joins.work('order');
    await publish('b', joinEvent('paid', 'B'));
    await redis.store.run('remove_subscriber', { token: TOKEN, series: [] });
    await bus.dropQueue(TOKEN);
    const { redis: commands, keys } = redis.store;
    assert.deepEqual(
      (await commands.keys('*')).filter((key) => key.includes('join')),
      [],
    );
    assert.equal(await commands.sismember(keys.subscribers(), TOKEN), 0);
    assert.deepEqual((await commands.smembers(keys.topics())).sort(), ['paid', 'ready', 'stuck']);
  });
});

describe('counting', () => {
  const held = async () => {
    await joins.put('order', PAID_AND_PACKED);
    await publish(
      'a',
      joinEvent('paid', 'A', 'p1'),
      joinEvent('packed', 'A', 'k1'),
      joinEvent('packed', 'A', 'k2'),
    );
    await bus.acquire(['w1']);
  };

  test('goes by slices, each of which leaves the batch when it is counted', async () => {
    await held();
    const first = await joins.count('order', 'w1', 'a1', { slice: 2 });
    assert.deepEqual([first.taken, first.isDone], [2, false]);
    await assertConsistent(redis.store);
    const { batches, gauges } = await bus.state();
    assert.deepEqual([batches.a1?.events.length, batches.a1?.attempts, gauges.events[TOKEN]], [1, 1, 1]);
    // The worker dies, and another goes on.
    await bus.scrub(-1);
    await bus.acquire(['w2']);
    const last = await joins.count('order', 'w2', 'a1');
    assert.deepEqual([last.taken, last.isDone, last.completed], [1, true, 1]);
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k1', 'k2']]);
  });

  test('changes nothing without the lease, by old rules, or if the join may not publish', async () => {
    await held();
    const unchanged = async (outcome: string, counting: Parameters<typeof joins.count>[3]) => {
      const before = await snapshot(redis.store);
      const reply = await joins.count('order', 'w1', 'a1', counting);
      assert.equal(reply.outcome, outcome);
      assert.deepEqual(await snapshot(redis.store), before);
      return reply;
    };
    await unchanged('not_held', { lease: 1 });
    await unchanged('changed', { version: '1' });
    await redis.store.redis.hset('topic:ready', 'publisher', 'other');
    await redis.store.redis.srem('topics:owned:shop', 'ready');
    assert.equal((await unchanged('refused', {})).reason, 'claimed_by_other');
    await redis.store.redis.hset('topic:ready', 'publisher', '');
    assert.equal(
      (await joins.count('order', 'w1', 'a1')).outcome,
      'counted',
      'nobody owns the topic: it is claimed',
    );
    assert.equal(await redis.store.redis.hget('topic:ready', 'publisher'), CLIENT);
  });

  test('is done once, however often its call arrives', async () => {
    await held();
    const slice = await joins.counting('order', 'w1', 'a1', { slice: 1 });
    const run = async () => (await redis.store.run('join_events', slice)).outcome;
    assert.deepEqual([await run(), await run()], ['counted', 'not_held']);
    const rest = await joins.counting('order', 'w1', 'a1');
    const runRest = async () => (await redis.store.run('join_events', rest)).outcome;
    assert.deepEqual([await runRest(), await run(), await runRest()], ['counted', 'not_held', 'not_held']);
    assert.equal((await published()).length, 1);
  });

  test('of a batch by two workers is done by the one that holds it', async () => {
    await held();
    const lease = bus.leases.get('w1') ?? 0;
    await bus.scrub(-1);
    await bus.acquire(['w2']);
    assert.equal((await joins.count('order', 'w1', 'a1', { lease })).outcome, 'not_held');
    assert.equal((await joins.count('order', 'w2', 'a1')).outcome, 'counted');
    assert.equal((await published()).length, 1);
  });

  test('stops at 20,000 copies, and goes on with the rest', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    const { redis: commands, keys } = redis.store;
    await commands.sadd(
      keys.topic_subscribers('ready'),
      ...Array.from({ length: 6000 }, (_, n) => `gone${n}`),
    );
    await publish('a', ...Array.from({ length: 10 }, (_, n) => joinEvent('paid', `${n}`)));
    await bus.acquire(['w1']);
    const taken: number[] = [];
    for (let isDone = false; !isDone; ) {
      const reply = await joins.count('order', 'w1', 'a1');
      taken.push(reply.taken);
      isDone = reply.isDone;
    }
    assert.deepEqual(taken, [4, 4, 2]);
    await redis.flush();
  });

  test('brings back the next batch of the join', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    await publish('a', joinEvent('paid', 'A', 'p1'));
    await bus.acquire(['w1']);
    await publish('b', joinEvent('paid', 'B', 'p2'));
    assert.deepEqual((await bus.acquire(['w2'])).grants, [], 'one batch at a time');
    await joins.count('order', 'w1', 'a1');
    assert.equal((await joins.work('order', 'w2')).completed, 1);
    assert.deepEqual(await publishedFor(), [
      ['A', 'p1'],
      ['B', 'p2'],
    ]);
  });
});

describe('open keys', () => {
  const STUCK: Rules = { ...PAID_AND_PACKED, within: 100, on_expiry: { topic: 'stuck', type: 'noop' } };
  const expired = async (atMs: number) => until(async () => (await bus.nowMs()) > atMs, { everyMs: 1 });

  test('expire in time, oldest first and as many as a call may close, and the join says so', async () => {
    await joins.put('order', STUCK);
    await publish(
      'a',
      joinEvent('paid', 'A', 'p1'),
      joinEvent('packed', 'B', 'k1'),
      joinEvent('paid', 'C', 'p2'),
    );
    await joins.work('order');
    const { redis: commands, keys } = redis.store;
    const due = Number(await commands.zscore(keys.joins_expiring(), TOKEN));
    assert.equal(due, ((await openKeys())[0]?.since ?? 0) + 100);
    const early = await joins.expire('order');
    assert.deepEqual([early.expired, early.isLeft], [0, false]);
    await expired(due);
    const first = await joins.expire('order', { maxClosed: 2 });
    assert.deepEqual([first.expired, first.isLeft], [2, true]);
    assert.ok(Number(await commands.zscore(keys.joins_expiring(), TOKEN)) <= (await bus.nowMs()));
    const second = await joins.expire('order', { maxClosed: 2 });
    assert.deepEqual([second.expired, second.isLeft], [1, false]);
    assert.equal(await commands.zscore(keys.joins_expiring(), TOKEN), null);
    const [a, b] = await published();
    assert.deepEqual(a?.data, { join: 'order', key: 'A', events: ['p1'], counts: { paid: 1, packed: 0 } });
    assert.deepEqual([a?.topic, a?.type, a?.url], ['stuck', 'noop', 'https://shop.example.com/p1']);
    assert.deepEqual(b?.data, { join: 'order', key: 'B', events: ['k1'], counts: { paid: 0, packed: 1 } });
    assert.equal((await bus.subscriber(TOKEN)).expired, '3');
  });

  test('do not expire before what came in time is counted', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A', 'p1'));
    await joins.work('order');
    await publish('b', joinEvent('packed', 'A', 'k1'), joinEvent('packed', 'A', 'k2'));
    await expired((await bus.nowMs()) + 120);
    const reply = await joins.expire('order');
    assert.deepEqual([reply.expired, reply.isLeft], [0, false]);
    const { redis: commands, keys } = redis.store;
    const due = Number(await commands.zscore(keys.joins_expiring(), TOKEN));
    assert.ok(due > (await bus.nowMs()), 'it is looked at again in a moment');
    await joins.work('order');
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k1', 'k2']]);
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

  test('are left alone by old rules; a join that is gone has none', async () => {
    await joins.put('order', STUCK);
    await publish('a', joinEvent('paid', 'A'));
    await joins.work('order');
    const before = await snapshot(redis.store);
    assert.equal((await joins.expire('order', { version: '1' })).changed, true);
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

describe('what a join publishes', () => {
  test('is counted by other joins', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    await joins.put('twice', {
      sources: [{ topic: 'ready', count: 2 }],
      then: { topic: 'stuck', type: 'noop' },
    });
    await publish('a', joinEvent('paid', 'A'), joinEvent('paid', 'A'));
    await joins.work('order');
    const { grants } = await bus.acquire(['w2']);
    assert.equal((await joins.count('twice', 'w2', grants[0]?.job ?? '')).completed, 1);
    assert.deepEqual(
      (await published()).map(({ topic, data }) => [topic, data.key]),
      [
        ['ready', 'A'],
        ['ready', 'A'],
        ['stuck', 'A'],
      ],
    );
  });

  test('is refused if another join publishes to the topic now', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    await publish('a', joinEvent('paid', 'A'));
    await bus.acquire(['w1']);
    const { redis: commands, keys } = redis.store;
    // As if the topic had been deleted and another client's join had taken it. Afterwards the topic is as before.
    const into = await commands.hget(keys.joins_into(), 'ready');
    await commands.hset(keys.joins_into(), 'ready', 'join:other:mail');
    assert.equal((await joins.count('order', 'w1', 'a1')).reason, 'replaced');
    await commands.hset(keys.joins_into(), 'ready', into ?? '');
    assert.equal((await joins.count('order', 'w1', 'a1')).outcome, 'counted');
  });
});
