import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { JoinCalls } from '../../harness/scripts/join_calls.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { joinToken } from '../../src/ids.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);

const register = (token: string) =>
  redis.store.run('register_client', { token, name: token, keepsName: false, scopes: [] });
const client = (token: string) => redis.store.redis.hgetall(redis.store.keys.api_token(token));
const topicsOf = async (token: string) =>
  (await redis.store.redis.smembers(redis.store.keys.subscriber_topics(token))).sort();
const triggerState = (name: string) =>
  redis.store.redis.hmget(redis.store.keys.trigger('shop', name), 'paused', 'error');

/** Limits a client to these topic patterns, separated by spaces. */
const limit = (token: string, patterns: { publish?: string; subscribe?: string } = {}) =>
  redis.store.run('register_client', {
    ...{ token, name: '', keepsName: true },
    scopes: (['publish', 'subscribe'] as const).flatMap((of) => {
      const list = patterns[of];
      return list === undefined ? [] : { of, patterns: list };
    }),
  });

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('register_client with keepsName', () => {
  beforeEach(() => register('shop'));

  test('stores the topic patterns, and a later call replaces all of them', async () => {
    const { created_at } = await client('shop');
    const outcome = { outcome: 'ok', name: 'shop', ended: [] };
    assert.deepEqual(await limit('shop', { publish: 'orders shop_*', subscribe: '' }), outcome);
    assert.deepEqual(await client('shop'), { created_at, publish: 'orders shop_*', subscribe: '' });
    assert.deepEqual(await limit('shop', { subscribe: 'orders' }), outcome);
    assert.deepEqual(await client('shop'), { created_at, subscribe: 'orders' });
    await limit('shop');
    assert.deepEqual(await client('shop'), { created_at });
  });

  test('leaves the secret of a client alone', async () => {
    await redis.store.redis.hset(redis.store.keys.api_token('shop'), { ha1_sha256: 'a', ha1_md5: 'b' });
    await limit('shop', { publish: 'orders' });
    const { ha1_sha256, ha1_md5, publish } = await client('shop');
    assert.deepEqual([ha1_sha256, ha1_md5, publish], ['a', 'b', 'orders']);
  });

  test('changes nothing if there is no such client', async () => {
    const before = await snapshot(redis.store);
    assert.deepEqual(await limit('nobody', { publish: 'orders' }), {
      outcome: 'client_not_found',
      name: undefined,
      ended: [],
    });
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('ends the subscriptions that are not permitted, and only these', async () => {
    await bus.subscribe('shop', { topics: ['orders', 'shop_news', 'widgets'] });
    await limit('shop', { subscribe: 'orders shop_*' });
    assert.deepEqual(await topicsOf('shop'), ['orders', 'shop_news']);
    await limit('shop', { publish: '' });
    assert.deepEqual(await topicsOf('shop'), ['orders', 'shop_news'], 'a limit of publishing ends none');
  });

  test('pauses the triggers whose topic is not permitted, and only these', async () => {
    await putTrigger(redis.store, 'daily', { topic: 'widgets', nextAt: 1 });
    await putTrigger(redis.store, 'hourly', { topic: 'orders', nextAt: 1 });
    await limit('shop', { publish: 'orders' });
    assert.deepEqual(await triggerState('daily'), ['1', 'forbidden']);
    assert.deepEqual(await triggerState('hourly'), [null, null]);
  });

  test('ends the joins that read or publish to a topic that is not permitted', async () => {
    const sources = [{ topic: 'paid', count: 1 }];
    await joins.put('order', { sources });
    await joins.put('refund', { sources, then: { topic: 'refunded', type: 'update' } });
    assert.deepEqual((await limit('shop', { publish: 'ready', subscribe: 'paid' })).ended, [
      joinToken('refund', 'shop'),
    ]);
    assert.deepEqual((await limit('shop', { subscribe: 'packed' })).ended, [joinToken('order', 'shop')]);
  });
});

describe('note_seen', () => {
  test('stores the time of Redis for the clients that exist, and makes no others', async () => {
    await register('shop');
    await register('mill');
    const earliestMs = await bus.nowMs();
    await redis.store.run('note_seen', { tokens: ['shop', 'nobody'] });
    const seenMs = Number((await client('shop')).seen_at);
    assert.ok(seenMs >= earliestMs && seenMs <= (await bus.nowMs()), String(seenMs));
    assert.equal((await client('mill')).seen_at, undefined);
    assert.deepEqual(await client('nobody'), {});
  });

  test('replaces an earlier time', async () => {
    await register('shop');
    await redis.store.redis.hset(redis.store.keys.api_token('shop'), 'seen_at', 1);
    await redis.store.run('note_seen', { tokens: ['shop'] });
    assert.ok(Number((await client('shop')).seen_at) > 1);
  });
});
