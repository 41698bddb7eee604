import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import { bus } from './two_webs_bus.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

async function gaugesOf(token: string): Promise<(string | null)[]> {
  const { redis, keys } = bus.partitions.ofSubscriber(token);
  return Promise.all([redis.hget(keys.gauge_events(), token), redis.hget(keys.gauge_batches(), token)]);
}

/** Resolves when the queue of a subscriber has so many events. With several partitions they may be under way to it. */
async function queues({ token }: { token: string }, events: number): Promise<void> {
  await until(async () => (await gaugesOf(token))[0] === String(events), { what: 'the events are queued' });
}

test('a subscriber that leaves a topic gets its queued events, and no later ones', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 3000, max: 100 });
  await publisher.publish(topic, [{ url: url(1) }, { url: url(2) }]);
  await subscriber.call('DELETE', `/subscriber/topics/${topic}`);
  await publisher.publish(topic, { url: url(3) });
  assert.equal((await subscriber.report()).events.queued, 2);
  await receiver.delivery(1);
  assert.deepEqual(receiver.urls, [url(1), url(2)]);
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.deepEqual((await subscriber.report()).topics, []);
  assert.equal(receiver.deliveries.length, 1);
});

test('a subscriber that leaves loses its queue, and another subscriber of the topic keeps its own', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 3000, max: 3 });
  const stays = await bus.client('stays');
  const witness = await bus.receiver(t);
  const { callback } = witness;
  await stays.call('POST', '/subscription', { topics: [topic], callback, timeout: 4000, max: 100 });
  await publisher.publish(topic, [{ url: url(1) }, { url: url(2) }]);
  await queues(subscriber, 2);
  await queues(stays, 2);

  await subscriber.call('DELETE', '/subscriber');
  assert.deepEqual(await gaugesOf(subscriber.token), [null, null]);
  assert.deepEqual(await gaugesOf(stays.token), ['2', '1']);
  await publisher.publish(topic, { url: url(3) });
  await witness.delivery(1);
  assert.deepEqual(witness.urls, [url(1), url(2), url(3)]);
  assert.deepEqual(receiver.deliveries, [], 'its deadline came before that of the other');
  await assert.rejects(subscriber.call('DELETE', '/subscriber'), { status: 404 });
});

test('a batch that fails after its subscriber has left is not tried again', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const left = Promise.withResolvers<void>();
  receiver.answers((response) => void left.promise.then(() => answer.status(500)(response)));
  await publisher.publish(topic, { url: url(1) });
  await receiver.delivery(1);
  await subscriber.call('DELETE', '/subscriber');
  left.resolve();
  await until(async () => (await gaugesOf(subscriber.token))[1] === null, { what: 'the batch is dropped' });
  assert.equal(receiver.deliveries.length, 1);
});

test('a batch that is accepted after its subscriber has left is deleted', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  await receiver.delivery(1);
  await subscriber.call('DELETE', '/subscriber');
  release();
  await until(async () => (await gaugesOf(subscriber.token))[1] === null);
  assert.equal(receiver.deliveries.length, 1);
  const { redis, keys } = bus.partitions.ofSubscriber(subscriber.token);
  assert.equal(await redis.exists(keys.subscriber(subscriber.token)), 0);
});

test('a client removed by root loses its subscription and its queue', async (t) => {
  const { publisher, topic, subscriber } = await bus.scene(t, { timeout: 3_600_000, max: 100 });
  await publisher.publish(topic, { url: url(1) });
  await bus.root.call('DELETE', `/api_tokens/${subscriber.token}`);
  assert.deepEqual(await gaugesOf(subscriber.token), [null, null]);
});
