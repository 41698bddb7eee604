import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { CLIENT, joinEvent } from '../../harness/scripts/join_calls.ts';
import { sumOf } from '../../src/sum.ts';
import { joinScene, PAID_AND_PACKED, TOKEN } from './join_scene.ts';

const { bus, joins, open, publish, published, publishedFor, redis } = joinScene();

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
    assert.deepEqual([first.removed, first.isDone], [2, false]);
    await assertConsistent(redis.store);
    const { batches, gauges } = await bus.state();
    assert.deepEqual([batches.a1?.events.length, batches.a1?.attempts, gauges.events[TOKEN]], [1, 1, 1]);
    // The first worker dies, and another one continues.
    await bus.scrub(-1);
    await bus.acquire(['w2']);
    const last = await joins.count('order', 'w2', 'a1');
    assert.deepEqual([last.removed, last.isDone, last.completed], [1, true, 1]);
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
    const removed: number[] = [];
    for (let isDone = false; !isDone; ) {
      const reply = await joins.count('order', 'w1', 'a1');
      removed.push(reply.removed);
      isDone = reply.isDone;
    }
    assert.deepEqual(removed, [4, 4, 2]);
    await redis.flush();
  });

  test('counts each 400 bytes of an event as a copy', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    const { redis: commands, keys } = redis.store;
    const gone = Array.from({ length: 500 }, (_, n) => `gone${n}`);
    await commands.sadd(keys.topic_subscribers('ready'), ...gone);
    const long = (n: number) => joinEvent('paid', `${n}`).replace('/e', `/${'x'.repeat(4000)}/e`);
    await publish('a', ...Array.from({ length: 10 }, (_, n) => long(n)));
    await bus.acquire(['w1']);
    assert.equal((await joins.count('order', 'w1', 'a1')).removed, 4);
    await redis.flush();
  });

  test('of a key that is complete a thousand times by new rules makes 500 events at most in a call', async () => {
    const then = { topic: 'unread', type: 'noop' } as const;
    await joins.put('order', { sources: [{ topic: 'paid', count: 9999 }], then });
    await publish('a', ...Array.from({ length: 1000 }, () => joinEvent('paid', 'A')));
    while ((await bus.state()).queued[TOKEN]) await joins.work('order');
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }], then });
    await publish('b', joinEvent('paid', 'A'));
    const { grants } = await bus.acquire(['w1']);
    const completed: number[] = [];
    for (let isDone = false; !isDone; ) {
      const reply = await joins.count('order', 'w1', grants[0]?.job ?? '');
      completed.push(reply.completed);
      isDone = reply.isDone;
    }
    assert.equal(sumOf(completed), 1001);
    assert.ok(Math.max(...completed) <= 500, `${completed}`);
  });

  test('of a key that is complete several times by new rules stops there too, and goes on', async () => {
    await joins.put('order', { sources: [{ topic: 'paid', count: 9 }] });
    await publish('a', ...Array.from({ length: 8 }, () => joinEvent('paid', 'A')));
    await joins.work('order');
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    const { redis: commands, keys } = redis.store;
    await commands.sadd(
      keys.topic_subscribers('ready'),
      ...Array.from({ length: 6000 }, (_, n) => `gone${n}`),
    );
    await publish('b', joinEvent('paid', 'A'));
    await bus.acquire(['w1']);
    const done: [removed: number, completed: number][] = [];
    for (let isDone = false; !isDone && done.length < 3; ) {
      const reply = await joins.count('order', 'w1', 'b1');
      done.push([reply.removed, reply.completed]);
      isDone = reply.isDone;
    }
    assert.deepEqual(done, [
      [0, 4],
      [1, 5],
    ]);
    assert.deepEqual(await open(), {});
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
