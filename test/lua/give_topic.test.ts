import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

/** Bytes that each delayed event of `later` takes. */
const EVENT_BYTES = 252;

const redis = new TestStore();
const bus = new Bus(() => redis.store);

const later = (...ids: string[]) => ids.map((id) => ({ id, delay: 60_000 }));
const heldBy = (token: string) => redis.store.redis.hgetall(redis.store.keys.delayed_held(token));
const owned = async (token: string) =>
  (await redis.store.redis.smembers(redis.store.keys.topics_owned(token))).sort();
const publishAs = async (client: string) => (await bus.publishAll('p', ['widgets', client, ['e']])).accepted;

const give = (client: string, limits: Record<string, number> = {}, topic = 'widgets') =>
  redis.store.run('give_topic', {
    ...{ topic, client, maxClientTopics: 10, maxClientDelayed: 10, maxClientBytes: 10_000, ...limits },
  });

async function assertRefused(outcome: string, giving: () => ReturnType<typeof give>): Promise<void> {
  const before = await snapshot(redis.store);
  assert.equal(await giving(), outcome);
  assert.deepEqual(await snapshot(redis.store), before, 'nothing is changed');
}

beforeEach(() => redis.flush());
afterEach(async () => {
  await assertConsistent(redis.store);
  assert.deepEqual(await sweep(redis.store), []);
});

describe('give_topic', () => {
  test('makes the client the publisher, and keeps subscriptions, counts and queued events', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['e1']);
    assert.equal(await give('mill'), 'ok');
    assert.deepEqual([await owned('shop'), await owned('mill')], [[], ['widgets']]);
    assert.deepEqual(await redis.store.redis.hgetall('topic:widgets'), { publisher: 'mill', counter: '1' });
    assert.deepEqual(await publishAs('shop'), ['claimed_by_other']);
    assert.deepEqual(await publishAs('mill'), [1]);
    assert.deepEqual(Object.values((await bus.state()).batches)[0]?.events, ['e1', 'e']);
  });

  test('counts the delayed events as those of the new publisher, which may delete them', async () => {
    await bus.delay('a', 'widgets', later('w1', 'w2'));
    await bus.delay('b', 'gadgets', later('g1'));
    await bus.delay('c', 'gizmos', later('z1'), { client: 'mill' });
    assert.equal(await give('mill'), 'ok');
    assert.deepEqual(await heldBy('shop'), {
      ...{ ':events': '1', ':bytes': String(EVENT_BYTES), gadgets: String(EVENT_BYTES) },
    });
    assert.deepEqual(await heldBy('mill'), {
      ...{ ':events': '3', ':bytes': String(3 * EVENT_BYTES) },
      ...{ gizmos: String(EVENT_BYTES), widgets: String(2 * EVENT_BYTES) },
    });
    const remove = (id: string, client: string) =>
      redis.store.run('delete_delayed', { topic: 'widgets', id, client });
    assert.equal(await remove('w1', 'shop'), 'forbidden');
    assert.equal(await remove('w1', 'mill'), 'ok');
    await bus.hasten('widgets', 120_000);
    assert.deepEqual((await bus.publishDelayed('d')).published, { widgets: 1 });
  });

  test('leaves nothing of a former publisher that owned this topic alone', async () => {
    await bus.delay('a', 'widgets', later('w1'));
    assert.equal(await give('mill'), 'ok');
    assert.deepEqual(await redis.store.redis.keys('*shop*'), []);
  });

  test('gives a topic that nobody owns', async () => {
    await bus.subscribe('alice');
    assert.equal(await give('mill'), 'ok');
    assert.deepEqual(await publishAs('shop'), ['claimed_by_other']);
    await redis.store.run('unsubscribe', { token: 'alice', topic: 'widgets', isForeign: false });
    assert.deepEqual(await owned('mill'), ['widgets'], 'it stays without subscriptions');
  });

  test('changes nothing if the client is the publisher already, whatever the limits are', async () => {
    await bus.delay('a', 'widgets', later('w1'));
    await assertRefused('ok', () => give('shop', { maxClientTopics: 0, maxClientDelayed: 0 }));
  });

  test('refuses a topic that does not exist', async () => {
    await assertRefused('topic_not_found', () => give('mill'));
  });

  test('refuses more topics than a client may own', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    await bus.publishAll('b', ['gadgets', 'mill', ['e2']]);
    await assertRefused('owns_too_many', () => give('mill', { maxClientTopics: 1 }));
    assert.equal(await give('mill', { maxClientTopics: 2 }), 'ok');
    await bus.publish('c', 'gizmos', ['e3']);
    assert.equal(await give('mill', { maxClientTopics: 3 }, 'gizmos'), 'ok');
    assert.equal(await give('shop', { maxClientTopics: 1 }, 'gizmos'), 'ok', 'the count of shop fell');
  });

  test('refuses more delayed events than a client may have', async () => {
    await bus.delay('a', 'widgets', later('w1', 'w2'));
    await bus.delay('b', 'gizmos', later('z1'), { client: 'mill' });
    await assertRefused('too_many_delayed', () => give('mill', { maxClientDelayed: 2 }));
    await assertRefused('too_much_delayed', () => give('mill', { maxClientBytes: 3 * EVENT_BYTES - 1 }));
    assert.equal(await give('mill', { maxClientDelayed: 3, maxClientBytes: 3 * EVENT_BYTES }), 'ok');
    await bus.publish('c', 'gadgets', ['e1']);
    const none = { maxClientDelayed: 0, maxClientBytes: 0 };
    assert.equal(await give('mill', none, 'gadgets'), 'ok', 'a topic without any');
  });
});
