import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Subscriptions } from '../../src/models/subscription.ts';
import { Topics } from '../../src/models/topic.ts';
import { Bus } from '../support/bus.ts';
import { assertConsistent } from '../support/invariants.ts';
import { longName } from '../support/names.ts';
import { TestStore } from '../support/store.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const subscriptions = () => new Subscriptions(redis.store);
const topics = () => new Topics(redis.store);
const wanted = { topics: ['widgets', 'gadgets'], callback: 'https://alice.example/', uuid: 'u' };

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('the report of a subscriber', () => {
  test('has the defaults and no events at first', async () => {
    await subscriptions().subscribe('alice', wanted);
    assert.deepEqual(await subscriptions().list('alice'), [
      {
        subscriber: 'alice',
        callback: 'https://alice.example/',
        max_events: 100,
        timeout: 500,
        topics: ['gadgets', 'widgets'],
        health_points: 100,
        last_attempted_at: null,
        events: { sent: 0, queued: 0, oldest: null },
      },
    ]);
  });

  test('has what was sent, what is queued and since when, batches under way included', async () => {
    await subscriptions().subscribe('alice', { ...wanted, timeoutMs: 0, maxEvents: 2 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e5']);
    const { now } = await bus.acquire(['w1', 'w2']);
    await bus.ack('w1', 'a1');
    const [report] = await subscriptions().list('alice');
    const oldest = Number(await bus.store.redis.zscore('batches:index', longName('a2')));
    assert.deepEqual(report?.events, { sent: 2, queued: 3, oldest });
    assert.deepEqual([report?.timeout, report?.max_events, report?.last_attempted_at], [0, 2, now]);
  });

  test('is one of all, by token; there is none of somebody unknown', async () => {
    for (const token of ['carol', 'alice', 'bob']) await subscriptions().subscribe(token, wanted);
    const all = (await subscriptions().list()).map(({ subscriber }) => subscriber);
    assert.deepEqual(all, ['alice', 'bob', 'carol']);
    assert.deepEqual(await subscriptions().list('dave'), []);
  });
});

describe('a subscriber that leaves', () => {
  test('takes its queue with it, and learns how many events were dropped', async () => {
    await subscriptions().subscribe('alice', wanted);
    await subscriptions().subscribe('bob', wanted);
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    assert.equal(await subscriptions().remove('alice'), 3);
    assert.deepEqual((await bus.state()).gauges, { events: { bob: 3 }, batches: { bob: 1 } });
    assert.equal(await subscriptions().remove('alice'), undefined);
  });

  test('with more batches than one call drops', async () => {
    await subscriptions().subscribe('alice', { ...wanted, maxEvents: 1 });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 1001 }, () => 'e'),
    );
    assert.equal(await subscriptions().remove('alice'), 1001);
    assert.deepEqual((await bus.state()).main.index, []);
  });

  test('keeps the batch that is being delivered until that is done', async () => {
    await subscriptions().subscribe('alice', { ...wanted, maxEvents: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1']);
    assert.equal(await subscriptions().remove('alice'), 1);
    assert.equal((await bus.ack('w1', 'a1')).removed, 1);
  });
});

test('unsubscribe says what it found', async () => {
  await subscriptions().subscribe('alice', wanted);
  assert.equal(await subscriptions().unsubscribe('alice', 'widgets'), 'ok');
  assert.equal(await subscriptions().unsubscribe('alice', 'widgets'), 'not_subscribed');
  assert.equal(await subscriptions().unsubscribe('alice', 'gizmos'), 'topic_not_found');
  assert.equal(await subscriptions().unsubscribe('bob', 'widgets'), 'subscriber_not_found');
});

describe('topics', () => {
  test('are listed by name, with their publishers and how many events they ever had', async () => {
    await subscriptions().subscribe('alice', wanted);
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.store.redis.sadd('topics', 'older');
    await bus.store.redis.hset('topic:older', 'publisher', '', 'counter', 3);
    assert.deepEqual(await topics().list(), [
      { name: 'gadgets', publisher: null, events: 0 },
      { name: 'older', publisher: null, events: 3 },
      { name: 'widgets', publisher: 'shop', events: 2 },
    ]);
  });

  test('are removed by their publisher, or by root', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    assert.equal(await topics().remove('widgets', 'mill'), 'forbidden');
    assert.equal(await topics().remove('widgets', 'shop'), 'ok');
    assert.equal(await topics().remove('widgets'), 'topic_not_found');
    await bus.publish('b', 'widgets', ['e1']);
    assert.equal(await topics().remove('widgets'), 'ok');
    assert.deepEqual(await topics().list(), []);
  });
});
