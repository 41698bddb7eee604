import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Receiver } from '../../harness/http/receiver.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { RUBY_EVENT } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import type { Partition } from '../../src/store/partition.ts';
import { restoreSchema1, schema1 } from '../fixtures/schema_1.ts';

describe('a Redis filled by the previous release', () => {
  const redis = new TestStore();

  test('differs only in its schema after the upgrade', async () => {
    await restoreSchema1(redis.store);
    const before = await snapshot(redis.store);
    await Promise.all([1, 2].map(() => prepareStorage(redis.store, 30_000, createLog('silent', {}))));
    const schema = redis.store.keys.schema();
    assert.equal(await redis.store.redis.get(schema), '2');
    await redis.store.redis.set(schema, '1');
    assert.deepEqual(await snapshot(redis.store), before);
  });
});

describe('a bus on a Redis filled by the previous release', () => {
  let receiver: Receiver;
  const bus = RunningBus.forTests({
    env: { ROUTEMASTER_WORKER_LEASE: '1' },
    prepare: async (store) => {
      await restoreSchema1(store);
      receiver = await Receiver.start();
      for (const { token } of Object.values(schema1.clients)) {
        const key = store.keys.subscriber(token);
        if (await store.redis.exists(key)) await store.redis.hset(key, 'callback', receiver.callback);
      }
    },
  });
  const clientOf = (name: string) => {
    const { token, secret } = schema1.clients[name] ?? { token: '', secret: '' };
    return bus.clientOf(token, secret);
  };
  const urls = (topic: string) =>
    receiver.events.filter((event) => event.topic === topic).map(({ url }) => url.split('/').at(-1));

  test('delivers all queued batches: current, ready, held by a dead worker, waiting outside the queue, or scheduled for another attempt', async (t) => {
    t.after(() => receiver.stop());
    await until(() => ['current', 'ready', 'held', 'failing'].every((topic) => urls(topic).length > 0));
    await until(() => urls('held').length === 3 && urls('ready').length === 4);
    assert.deepEqual(urls('current'), ['1', '2', '3']);
    assert.deepEqual(urls('ready').sort(), ['1', '2', '3', '4']);
    assert.deepEqual(urls('held').sort(), ['2', '3', '4']);
    assert.deepEqual(urls('failing'), ['1']);
    assert.deepEqual(urls('gone'), [], 'its subscriber is paused');
    const body = receiver.deliveries.find(({ events }) => events[0]?.topic === 'current')?.body ?? '';
    assert.match(body, /"data":\{"color":"teal","größe":"ü","long":18446744073709551615\}/);

    const { topics, callback } = (await clientOf('gone').report()) as { topics: string[]; callback: string };
    const subscription = { topics, callback, uuid: 'gone', timeout: 0, max: 1 };
    await clientOf('gone').call('POST', '/subscription', subscription);
    await until(() => urls('gone').length === 3);

    const letters = (await clientOf('dead').call('GET', '/dead_letters')) as { id: string }[];
    assert.equal(letters.length, 2);
    const shown = await clientOf('dead').call('GET', `/dead_letters/${letters[0]?.id}`);
    await clientOf('dead').call('POST', `/dead_letters/${letters[0]?.id}/retry`);
    await until(() => urls('dead').length === 1);
    const delivered = receiver.events.find(({ topic }) => topic === 'dead');
    assert.deepEqual(
      (shown as { events: unknown[] }).events,
      [delivered],
      'with the id that the listing shows',
    );

    const ids = receiver.events.map(({ id }) => id);
    assert.ok(ids.every((id) => /^[\w-]{16}$/.test(id)));
    assert.equal(new Set(ids).size, ids.length);
  });

  test('recognizes repeated idempotency keys, and continues its counters', async () => {
    const published = () => bus.metric('routemaster_events_published_total', { topic: 'current' });
    const counted = () => bus.store.redis.hget(bus.store.keys.topic('current'), 'counter');
    await until(async () => (await published()) === 3);
    await clientOf('shop').publish(
      'current',
      { url: 'https://shop.example.com/current/3', timestamp: 1 },
      'first-try',
    );
    assert.equal(await counted(), '3', 'it was answered, not stored');
    await clientOf('shop').publish('current', { url: 'https://shop.example.com/current/4' });
    assert.equal(await counted(), '4');
    await until(async () => (await published()) === 4);
  });
});

describe('while processes of the previous release still run', () => {
  const WAITING = 'waiting until the workers of the former release are gone: stop them';
  const hear = async ({ redis, keys }: Partition, worker: string) => {
    const [seconds] = await redis.time();
    await redis.hset(keys.workers(), worker, Number(seconds) * 1000);
  };

  test('a boot waits for its workers, and continues when the last has retired or expired', async (t) => {
    const bus = await RunningBus.open({
      env: { ROUTEMASTER_WORKER_LEASE: '2' },
      prepare: async ({ redis, keys }) => void (await redis.set(keys.schema(), '1')),
    });
    t.after(() => bus.close());
    const { store } = bus;
    await hear(store, 'retires');
    await hear(store, 'is killed');
    const beats = setInterval(() => void hear(store, 'retires'), 100);
    t.after(() => clearInterval(beats));
    const started = bus.start('worker');
    const { level } = await until(() => bus.process('worker').log.find(({ msg }) => msg === WAITING));
    assert.equal(level, 40);
    const isForgotten = async () => {
      const [seconds] = await store.redis.time();
      return (
        Number(await store.redis.hget(store.keys.workers(), 'is killed')) < Number(seconds) * 1000 - 3000
      );
    };
    await until(isForgotten);
    assert.equal(await store.redis.get(store.keys.schema()), '1', 'one is alive');
    clearInterval(beats);
    await store.redis.hdel(store.keys.workers(), 'retires');
    await started;
    assert.equal(await store.redis.get(store.keys.schema()), '2');
    assert.equal(bus.process('worker').log.filter(({ msg }) => msg === WAITING).length, 1);
  });

  test('events stored by its web processes are delivered among the new ones', async (t) => {
    const bus = await RunningBus.open({});
    t.after(() => bus.close());
    await bus.start('web');
    const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 3_600_000, max: 3 });
    await publisher.publish(topic, { url: 'https://shop.example.com/1' });
    const { redis, keys } = bus.store;
    const [bid = ''] = await redis.smembers(keys.batches_current(subscriber.token));
    await redis.rpush(keys.batch(bid), RUBY_EVENT);
    await redis.hincrby(keys.gauge_events(), subscriber.token, 1);
    await publisher.publish(topic, { url: 'https://shop.example.com/3' });
    await bus.start('worker');
    const { events } = await receiver.delivery(1);
    assert.deepEqual(
      events.map(({ url }) => url),
      ['https://shop.example.com/1', 'https://a.example.com/w/1', 'https://shop.example.com/3'],
    );
  });
});
