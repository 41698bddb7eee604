import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll, readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { NO_OUTBOX, subscribersIn, subscriptionsOf } from '../../harness/subscriptions.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { newKeyPair, newSecret } from '../../src/subscribing/signing_keys.ts';
import { Topics } from '../../src/subscribing/topic.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const subscriptions = () => subscriptionsOf(redis.store);
const subscribers = () => subscribersIn(new Partitions(redis.store));
const topics = () => new Topics(new Partitions(redis.store), NO_OUTBOX);
const wanted = { topics: ['widgets', 'gadgets'], callback: 'https://alice.example/', uuid: 'u' };

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('the report of a subscriber', () => {
  test('has the defaults and no events at first', async () => {
    await subscriptions().subscribe('alice', wanted);
    assert.deepEqual(await subscribers().read(['alice']), [
      {
        subscriber: 'alice',
        uuid: 'u',
        callback: 'https://alice.example/',
        max_events: 100,
        max_bytes: 1_048_576,
        timeout: 500,
        ordered: false,
        max_in_flight: 16,
        max_attempts: 1500,
        max_age: 86_400_000,
        signing: null,
        topics: ['gadgets', 'widgets'],
        health_points: 100,
        last_attempted_at: null,
        paused_at: null,
        paused_by: null,
        events: { sent: 0, queued: 0, oldest: null },
        dead_letters: { batches: 0, events: 0 },
        bytes: { queued: 0, dead_letters: 0 },
        dropped: null,
      },
    ]);
  });

  test('counts sent and queued events, including those being delivered', async () => {
    await subscriptions().subscribe('alice', { ...wanted, timeout: 0, max_events: 2 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e5']);
    const { now } = await bus.acquire(['w1', 'w2']);
    await bus.ack('w1', 'a1');
    const [report] = await subscribers().read(['alice']);
    const oldest = await bus.createdMs('a2');
    assert.deepEqual(report?.events, { sent: 2, queued: 3, oldest });
    assert.deepEqual([report?.timeout, report?.max_events, report?.last_attempted_at], [0, 2, now]);
  });

  test('has the settings asked for, keeps those left out, and caps them at the limits of the bus', async () => {
    const settings = { ordered: true, max_in_flight: 3, max_attempts: 7, max_age: 60_000 };
    await subscriptions().subscribe('alice', { ...wanted, ...settings });
    const shown = async () => {
      const [report] = await subscribers().read(['alice']);
      return [report?.ordered, report?.max_in_flight, report?.max_attempts, report?.max_age];
    };
    assert.deepEqual(await shown(), [true, 3, 7, 60_000]);
    await subscriptions().subscribe('alice', wanted);
    assert.deepEqual(await shown(), [true, 3, 7, 60_000]);
    await subscriptions().subscribe('alice', { ...wanted, ordered: false, max_in_flight: 1000 });
    assert.deepEqual(await shown(), [false, 64, 7, 60_000]);
  });

  test('has the creation time of an ordered subscriber’s oldest batch, whatever its state', async () => {
    await subscriptions().subscribe('alice', { ...wanted, ordered: true });
    await bus.publish('a', 'widgets', ['e1']);
    const { redis: commands, keys } = bus.store;
    const created = await bus.createdMs('a1');
    await commands.zincrby(keys.batches_queued('alice'), 5, longName('a1'));
    assert.equal((await subscribers().read(['alice']))[0]?.events.oldest, created);
  });

  test('has the time of the pause until it subscribes again', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    const { now } = await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { pause: 1 });
    const paused = async () => (await subscribers().read(['alice']))[0]?.paused_at;
    const since = (await paused()) ?? 0;
    assert.ok(now <= since && since <= (await bus.nowMs()));
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    assert.equal(await paused(), null);
  });

  test('has the signing scheme of the newest key, and never a key', async () => {
    const { privateKey } = newKeyPair();
    const keys = [newSecret(), privateKey, newSecret(), null];
    const shown = [];
    for (const signingKey of keys) {
      await subscriptions().subscribe('alice', { ...wanted, signingKey });
      const [report] = await subscribers().read(['alice']);
      shown.push(report?.signing);
      assert.doesNotMatch(JSON.stringify(report), /whs[ek]|[\w+/]{30}/);
    }
    assert.deepEqual(shown, ['v1', 'v1a', 'v1', null]);
  });

  test('has its dead letters', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 2 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e5']);
    await buryAll(redis.store);
    const [report] = await subscribers().read(['alice']);
    assert.deepEqual(report?.dead_letters, { batches: 2, events: 4 });
    assert.equal(report?.events.queued, 1);
  });

  test('has the events dropped for memory, and how many are not announced yet', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    const [from, to] = [await bus.createdMs('a1'), await bus.createdMs('a2')];
    await bus.store.run('autodrop', { orders: [{ maxDeleted: 10 }], deliveryLog: 1000, begunTopics: [] });
    const dropped = async () => (await subscribers().read(['alice']))[0]?.dropped;
    const last_at = (await dropped())?.last_at ?? 0;
    assert.ok(to <= last_at && last_at <= (await bus.nowMs()));
    const all = { batches: 2, events: 2, from, to, topics: { '': 2 }, last_at };
    assert.deepEqual(await dropped(), { ...all, untold: 2 });
    await bus.publish('b', 'widgets', ['e3']);
    await bus.acquire(['w1']);
    assert.deepEqual(
      await dropped(),
      { ...all, untold: 2 },
      'the delivery that tells of it was not taken yet',
    );
    await bus.ack('w1', 'b1');
    assert.deepEqual(await dropped(), { ...all, untold: 0 });
  });

  test('is listed by token; an unknown subscriber has none', async () => {
    for (const token of ['carol', 'alice', 'bob']) await subscriptions().subscribe(token, wanted);
    const all = (await subscribers().list()).map(({ subscriber }) => subscriber);
    assert.deepEqual(all, ['alice', 'bob', 'carol']);
    assert.deepEqual(await subscribers().read(['dave']), []);
  });
});

/** Removes Alice. Resolves with the number of events that are counted as removed; undefined if she is not there. */
async function removeAlice(): Promise<number | undefined> {
  const counted: number[] = [];
  const figures = { removed: (_token: string, events: number) => void counted.push(events) };
  const found = await subscribersIn(new Partitions(redis.store), NO_OUTBOX, figures).remove('alice');
  assert.equal(counted.length, found ? 1 : 0);
  return counted[0];
}

describe('removing a subscriber', () => {
  test('drops its queue and counts the events', async () => {
    await subscriptions().subscribe('alice', wanted);
    await subscriptions().subscribe('bob', wanted);
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    assert.equal(await removeAlice(), 3);
    assert.deepEqual((await bus.state()).gauges, { events: { bob: 3 }, batches: { bob: 1 } });
    assert.equal(await removeAlice(), undefined);
  });

  test('works with more batches than one call drops', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 1001 }, () => 'e'),
    );
    assert.equal(await removeAlice(), 1001);
    assert.deepEqual((await bus.state()).main.index, []);
  });

  test('purges its dead letters, but not those of others', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await subscriptions().subscribe('bob', { ...wanted, max_events: 1 });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 101 }, () => 'e'),
    );
    await buryAll(redis.store);
    assert.equal(await removeAlice(), 0);
    const letters = Object.values(await readDeadLetters(bus.store));
    assert.equal(letters.length, 101);
    assert.ok(letters.every(({ token }) => token === 'bob'));
  });

  test('completes an earlier removal that was cut off', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await buryAll(redis.store);
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.equal(await removeAlice(), undefined);
    assert.deepEqual(await readDeadLetters(bus.store), {});
  });

  test('keeps a batch that is being delivered until the delivery ends', async () => {
    await subscriptions().subscribe('alice', { ...wanted, max_events: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1']);
    assert.equal(await removeAlice(), 1);
    assert.equal((await bus.ack('w1', 'a1')).removed, 1);
  });
});

test('unsubscribe returns what it found', async () => {
  await subscriptions().subscribe('alice', wanted);
  await bus.publish('a', 'widgets', ['e1']);
  assert.equal(await subscriptions().unsubscribe('alice', 'widgets'), 'ok');
  assert.equal(await subscriptions().unsubscribe('alice', 'widgets'), 'not_subscribed');
  assert.equal(await subscriptions().unsubscribe('alice', 'gizmos'), 'topic_not_found');
  assert.equal(await subscriptions().unsubscribe('bob', 'widgets'), 'subscriber_not_found');
});

/** The members of a topic without delayed events. */
const PLAIN_TOPIC = { delayed: 0, dropped: null };

describe('topics', () => {
  test('are listed by name, with publishers and totals of events', async () => {
    await subscriptions().subscribe('alice', wanted);
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.store.redis.sadd('topics', 'older');
    await bus.store.redis.hset('topic:older', 'publisher', '', 'counter', 3);
    assert.deepEqual(await topics().list(), [
      { name: 'gadgets', publisher: null, events: 0, ...PLAIN_TOPIC },
      { name: 'older', publisher: null, events: 3, ...PLAIN_TOPIC },
      { name: 'widgets', publisher: 'shop', events: 2, ...PLAIN_TOPIC },
    ]);
  });

  test('are removed by their publisher, or by root', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    assert.equal((await topics().remove('widgets', 'mill')).outcome, 'forbidden');
    assert.equal((await topics().remove('widgets', 'shop')).outcome, 'ok');
    assert.equal((await topics().remove('widgets')).outcome, 'topic_not_found');
    await bus.publish('b', 'widgets', ['e1']);
    assert.equal((await topics().remove('widgets')).outcome, 'ok');
    assert.deepEqual(await topics().list(), []);
  });
});
