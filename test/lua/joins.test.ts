import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CLIENT, JoinCalls, joinEvent, type Rules } from '../../harness/scripts/join_calls.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { joinToken } from '../../src/ids.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { joinScene, PAID_AND_PACKED, TOKEN } from './join_scene.ts';

const { bus, joins, open, publish, published, publishedFor, redis } = joinScene();

const give = async (topic: string, client: string) => {
  const room = { maxClientTopics: 10, maxClientDelayed: 10, maxClientBytes: 10_000 };
  assert.equal(await redis.store.run('give_topic', { topic, client, ...room }), 'ok');
};

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
    assert.deepEqual([first.outcome, first.removed, first.isDone, first.completed], ['counted', 3, true, 0]);
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

  test('counts the events of a batch once, although another program has written the key joins:expiring', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    await publish('a', joinEvent('paid', 'A', 'p1'));
    const { redis: commands, keys } = redis.store;
    await commands.del(keys.joins_expiring());
    await commands.set(keys.joins_expiring(), 'x');
    await assert.rejects(joins.work('order'), /WRONGTYPE/);
    await commands.del(keys.joins_expiring());
    await sweep(redis.store);
    assert.deepEqual((await bus.acquire(['w1'])).grants, []);
    assert.deepEqual(await publishedFor(), [['A', 'p1']]);
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
    // A key keeps 100 ids. The oldest one was removed to make room for the id of the payment.
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
    const { unkeyed, removed } = await joins.work('order');
    assert.deepEqual([unkeyed, removed], [1, 3]);
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

  test('that is changed counts a source anew that had left and comes back', async () => {
    const { sources } = PAID_AND_PACKED;
    await joins.put('order', PAID_AND_PACKED);
    await publish('a', joinEvent('paid', 'A', 'p1'), joinEvent('packed', 'A', 'k1'));
    await joins.work('order');
    await joins.put('order', { sources: sources.slice(0, 1) });
    await joins.put('order', PAID_AND_PACKED);
    assert.deepEqual(await open(), { A: { counts: { paid: 1, packed: 0 }, events: ['p1'] } });
    await publish('b', joinEvent('packed', 'A', 'k2'));
    await joins.work('order');
    await joins.put('order', PAID_AND_PACKED);
    assert.deepEqual(await open(), { A: { counts: { paid: 1, packed: 1 }, events: ['p1', 'k2'] } });
    await publish('c', joinEvent('packed', 'A', 'k3'));
    assert.equal((await joins.work('order')).completed, 1);
    assert.deepEqual(await publishedFor(), [['A', 'p1', 'k2', 'k3']]);
  });

  test('that is changed to need less publishes as often as what it has counted is enough', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 6 }] });
    await publish('a', ...['p1', 'p2', 'p3', 'p4'].map((id) => joinEvent('paid', 'A', id)));
    await joins.work('order');
    await joins.put('order', { sources: [{ topic: 'paid', count: 2 }] });
    await publish('b', joinEvent('paid', 'A', 'p5'));
    await joins.work('order');
    assert.deepEqual(await publishedFor(), [
      ['A', 'p1', 'p2'],
      ['A', 'p3', 'p4'],
    ]);
    assert.deepEqual(await open(), { A: { counts: { paid: 1 }, events: ['p5'] } });
  });

  test('needs room for those of its topics that do not exist yet, and for no others', async () => {
    await publish('a', joinEvent('paid', 'A'), joinEvent('packed', 'A'));
    assert.deepEqual((await redis.store.redis.smembers('topics')).length, 4);
    const put = async (into: string, limits: Parameters<typeof joins.put>[2]) => {
      const rules = { ...PAID_AND_PACKED, on_expiry: { topic: 'late', type: 'update' } as const };
      const { outcome } = await joins.put(
        'order',
        { ...rules, then: { topic: into, type: 'update' } },
        limits,
      );
      return outcome;
    };
    assert.equal(await put('ready', { maxTopics: 4 }), 'no_room');
    assert.equal(await put('early', { maxTopics: 5 }), 'no_room');
    assert.equal(await put('ready', { maxTopics: 5, maxClientTopics: 1 }), 'owns_too_many');
    assert.equal(await put('ready', { maxTopics: 5, maxClientTopics: 2 }), 'created');
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

  test('loses a topic to a join of the next publisher, until it is put again', async () => {
    const rules = { sources: [{ topic: 'paid', count: 1 }] };
    await joins.put('order', rules);
    await publish('a', joinEvent('paid', 'A'));
    await bus.acquire(['w1']);
    await give('ready', 'mail');
    await new JoinCalls(bus, 'mail').put('other', { sources: [{ topic: 'sent', count: 1 }] });
    assert.equal((await joins.count('order', 'w1', 'a1')).reason, 'replaced');
    await redis.store.run('remove_subscriber', { token: joinToken('other', 'mail'), series: [] });
    await assertNothingToSweep(redis.store);
    await give('ready', CLIENT);
    assert.equal((await joins.count('order', 'w1', 'a1')).reason, 'replaced');
    assert.equal((await joins.put('order', rules)).outcome, 'changed');
    assert.equal((await joins.count('order', 'w1', 'a1')).outcome, 'counted');
  });

  test('of which a topic was taken leads no events round in a circle', async () => {
    const [mail, post] = [new JoinCalls(bus, 'mail'), new JoinCalls(bus, 'post')];
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    await give('ready', 'mail');
    await mail.put('other', { sources: [{ topic: 'sent', count: 1 }] });
    const back: Rules = { sources: [{ topic: 'ready', count: 1 }], then: { topic: 'paid', type: 'noop' } };
    assert.equal((await post.put('back', back)).outcome, 'created');
    await redis.store.run('remove_subscriber', { token: joinToken('other', 'mail'), series: [] });
    await assertNothingToSweep(redis.store);
    await give('ready', CLIENT);
    assert.deepEqual(await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] }), {
      outcome: 'loop',
      topic: 'paid',
      join: undefined,
    });
  });
});
