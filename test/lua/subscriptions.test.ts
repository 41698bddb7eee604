import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import type { Partition } from '../../src/store/partition.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const members = async (key: string) => (await bus.store.redis.smembers(key)).sort();
const run: Partition['run'] = (name, args) => bus.store.run(name, args);
const removeSubscriber = () => run('remove_subscriber', { token: 'alice', series: [] });

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('subscribe', () => {
  test('creates the subscriber, healthy and with the defaults, and its topics, unclaimed', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], timeout: '', max: '', proven: false });
    const { subscribed_at, ...rest } = await bus.subscriber('alice');
    assert.match(subscribed_at ?? '', /^\d{16}$/);
    assert.deepEqual(rest, {
      callback: 'https://alice.example/',
      uuid: 'u',
      timeout: '500',
      max_events: '100',
      health_points: '100',
    });
    assert.deepEqual(await members('subscribers'), ['alice']);
    assert.deepEqual(await members('topics'), ['gadgets', 'widgets']);
    assert.deepEqual(await members('topics:alice'), ['gadgets', 'widgets']);
    assert.deepEqual(await members('subscribers:widgets'), ['alice']);
    assert.equal(await bus.store.redis.exists('topic:widgets'), 0);
  });

  test('keeps omitted settings, and the health of the subscriber', async () => {
    await bus.subscribe('alice', { timeout: 0, max: 7 });
    await bus.store.redis.hset('subscriber:alice', 'health_points', 40, 'sent', 12);
    await bus.subscribe('alice', { timeout: '', max: '' });
    const { timeout, max_events, health_points, sent } = await bus.subscriber('alice');
    assert.deepEqual([timeout, max_events, health_points, sent], ['0', '7', '40', '12']);
    await bus.subscribe('alice', { timeout: 900, max: '' });
    const changed = await bus.subscriber('alice');
    assert.deepEqual([changed.timeout, changed.max_events], ['900', '7']);
  });

  test('subscribes to exactly the topics given', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.subscribe('bob', { topics: ['gadgets'] });
    await bus.subscribe('alice', { topics: ['gizmos', 'widgets'] });
    assert.deepEqual(await members('topics:alice'), ['gizmos', 'widgets']);
    assert.deepEqual(await members('subscribers:gadgets'), ['bob']);
    await bus.subscribe('alice', { topics: [] });
    assert.deepEqual(await members('topics:alice'), []);
    assert.deepEqual(await members('subscribers'), ['alice', 'bob']);
    assert.deepEqual(await members('topics'), ['gadgets']);
  });

  test('a second time changes only the time of the subscription', async () => {
    await bus.subscribe('alice');
    const { subscribed_at = '' } = await bus.subscriber('alice');
    const before = await snapshot(bus.store);
    await bus.subscribe('alice');
    assert.ok(Number((await bus.subscriber('alice')).subscribed_at) > Number(subscribed_at));
    await bus.store.redis.hset('subscriber:alice', { subscribed_at });
    assert.deepEqual(await snapshot(bus.store), before);
  });

  test('applies to the next event, for topics added and topics removed', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    await bus.subscribe('alice');
    await bus.publish('b', 'widgets', ['e2']);
    await bus.subscribe('alice', { topics: ['gadgets'] });
    await bus.publish('c', 'widgets', ['e3']);
    assert.deepEqual((await bus.state()).batches, { b1: { token: 'alice', attempts: 0, events: ['e2'] } });
  });
});

describe('unsubscribe', () => {
  test('ends one subscription and keeps queued events', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.publish('a', 'widgets', ['e1']);
    assert.equal(await run('unsubscribe', { token: 'alice', topic: 'widgets', isForeign: false }), 'ok');
    assert.deepEqual(await members('topics:alice'), ['gadgets']);
    assert.deepEqual(await members('subscribers:widgets'), []);
    assert.deepEqual((await bus.state()).queued, { alice: ['a1'] });
  });

  test('returns what is missing, and changes nothing', async () => {
    await bus.subscribe('alice', { topics: ['widgets'] });
    await bus.subscribe('bob', { topics: ['gadgets'] });
    const before = await snapshot(bus.store);
    assert.equal(
      await run('unsubscribe', { token: 'carol', topic: 'widgets', isForeign: false }),
      'subscriber_not_found',
    );
    assert.equal(
      await run('unsubscribe', { token: 'alice', topic: 'unheard_of', isForeign: false }),
      'topic_not_found',
    );
    assert.equal(
      await run('unsubscribe', { token: 'alice', topic: 'gadgets', isForeign: false }),
      'not_subscribed',
    );
    assert.deepEqual(await snapshot(bus.store), before);
  });
});

describe('a subscriber that changes its settings', () => {
  test('has its open batch delivered earlier with a shorter timeout, but not later with a longer one', async () => {
    await bus.subscribe('alice', { timeout: 3_600_000 });
    await bus.publish('a', 'widgets', ['e1']);
    const before = await bus.nowMs();
    await bus.subscribe('alice', { timeout: 1000 });
    const { redis: commands } = bus.store;
    const due = async () => Number((await commands.zrange('jobs:scheduled:main', '0', '0', 'WITHSCORES'))[1]);
    assert.ok((await due()) >= before + 1000 && (await due()) < before + 60_000);
    const hurried = await due();
    await bus.subscribe('alice', { timeout: 3_600_000 });
    assert.equal(await due(), hurried);
  });

  test('by leaving and subscribing again loses its old queue, but no later event', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['old']);
    const { nowMs: untilMs } = await removeSubscriber();
    while ((await bus.nowMs()) <= untilMs);
    await bus.subscribe('alice');
    await bus.publish('b', 'widgets', ['new']);
    assert.deepEqual(await bus.dropQueue('alice', 500, untilMs), { batches: 1, events: 1 });
    assert.deepEqual((await bus.state()).batches, { b1: { token: 'alice', attempts: 0, events: ['new'] } });
  });

  test('does so too if it is ordered, although its batches may be indexed later than they were opened', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    await bus.publish('a', 'widgets', ['old', 'older', 'oldest']);
    const { redis: commands, keys } = bus.store;
    await commands.zincrby(keys.batches_queued('alice'), 500_000, longName('a3'));
    const { nowMs: untilMs } = await removeSubscriber();
    assert.deepEqual(await bus.dropQueue('alice', 500, untilMs), { batches: 3, events: 3 });
  });
});

describe('remove_subscriber', () => {
  test('deletes the subscriber, its subscriptions, and topics that nobody uses any more', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.subscribe('bob', { topics: ['gadgets'] });
    assert.equal((await removeSubscriber()).found, true);
    assert.deepEqual(await members('subscribers'), ['bob']);
    assert.deepEqual(await bus.subscriber('alice'), {});
    assert.deepEqual(await members('topics:alice'), []);
    assert.deepEqual(await members('subscribers:gadgets'), ['bob']);
    assert.deepEqual(await members('topics'), ['gadgets']);
    assert.equal((await removeSubscriber()).found, false);
  });

  test('leaves its batches to drop_queue or to their jobs', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await run('remove_subscriber', { token: 'alice', series: [] });
    await bus.publish('b', 'widgets', ['e2']);
    assert.deepEqual((await bus.state()).queued, { alice: ['a1'] });
    await bus.acquire(['w1']);
    await bus.ack('w1', 'a1');
    assert.deepEqual((await bus.state()).batches, {});
  });
});

describe('a subscriber that leaves while it is paused', () => {
  test('has its batches deleted by their jobs if its queue is not dropped', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { delayMs: 60_000, pause: 1 });
    await bus.acquire(['w1', 'w2']);
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a1', 'a2', 'a3'] });
    await removeSubscriber();
    for (const names of [['a1'], ['a2', 'a3']]) {
      const { grants } = await bus.acquire(['w1', 'w2']);
      assert.deepEqual(
        grants.map(({ job }) => job),
        names,
      );
      for (const { worker, job } of grants) await bus.ack(worker, job);
    }
    assert.deepEqual((await bus.state()).batches, {});
  });

  test('takes its drop notice with it', async () => {
    await bus.subscribe('alice');
    const { redis: commands, keys } = bus.store;
    const gaps = [keys.drop_notice('alice'), keys.drop_notice_carried('alice'), keys.dropped('alice')];
    for (const key of gaps)
      await commands.hset(key, { batches: 1, events: 2, from: 5, to: 5, 'topic:widgets': 2 });
    await removeSubscriber();
    assert.equal(await commands.exists(...gaps), 0);
  });
});

describe('remove_topic', () => {
  test('deletes the topic and its subscriptions, and keeps queued events', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.publish('a', 'widgets', ['e1']);
    const removed = await run('remove_topic', { topic: 'widgets', client: 'shop', series: [] });
    assert.deepEqual(removed, { outcome: 'ok', delayed: 0, subscriptions: 1, partitions: [] });
    assert.deepEqual(await members('topics'), ['gadgets']);
    assert.equal(await bus.store.redis.exists('topic:widgets', 'subscribers:widgets'), 0);
    assert.deepEqual(await members('topics:alice'), ['gadgets']);
    assert.deepEqual((await bus.state()).queued, { alice: ['a1'] });
    assert.deepEqual((await bus.publishAll('b', ['widgets', 'mill', ['e2']])).accepted, [0]);
  });

  test('is for the publisher and root only', async () => {
    await bus.subscribe('alice', { topics: ['gadgets'] });
    await bus.publish('a', 'widgets', ['e1']);
    const before = await snapshot(bus.store);
    assert.equal(
      (await run('remove_topic', { topic: 'widgets', client: 'mill', series: [] })).outcome,
      'forbidden',
    );
    assert.equal(
      (await run('remove_topic', { topic: 'gadgets', client: 'mill', series: [] })).outcome,
      'forbidden',
      'an unclaimed topic is nobody’s',
    );
    assert.equal(
      (await run('remove_topic', { topic: 'unheard_of', client: 'mill', series: [] })).outcome,
      'topic_not_found',
    );
    assert.deepEqual(await snapshot(bus.store), before);
    assert.equal((await run('remove_topic', { topic: 'widgets', series: [] })).outcome, 'ok');
    assert.equal((await run('remove_topic', { topic: 'gadgets', series: [] })).outcome, 'ok');
  });
});
