import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import { bus } from './short_lease_bus.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

const queueOf = async (token: string) => {
  const { redis, keys } = bus.partitions.ofSubscriber(token);
  return Number(await redis.hget(keys.gauge_events(), token));
};

test('when a worker is killed during a delivery, another delivers the batch after the lease', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.answers(answer.hang);
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  await bus.process('worker').kill();
  await bus.start('worker');
  const second = await receiver.delivery(2);
  assert.deepEqual([second.id, second.body], [first.id, first.body]);
  assert.equal(second.attempt, 2);
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.equal((await subscriber.report()).health_points, 100, 'the subscriber is not to blame');
  assert.equal(receiver.deliveries.length, 2);
});

test('a worker that stops during a delivery finishes it, and no event is delivered twice', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  await receiver.delivery(1);
  const worker = bus.process('worker');
  const ended = worker.stop();
  await worker.logs('stopping');
  await publisher.publish(topic, { url: url(2) });
  release();
  assert.deepEqual(await ended, { code: 0, signal: null });
  // A thread that did not know of the stop yet may have taken the second event as well.
  const { queued } = (await subscriber.report()).events;
  assert.deepEqual(receiver.urls, [url(1), url(2)].slice(0, 2 - queued));
  assert.deepEqual(await bus.store.redis.hkeys(bus.store.keys.workers()), [], 'its workers are retired');

  await bus.start('worker');
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.deepEqual(receiver.urls, [url(1), url(2)]);
});

test('a worker that stops while a delivery hangs gives it back, and another delivers it', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  await bus.process('worker').stop();
  const worker = await bus.start('worker', { ROUTEMASTER_TIMEOUT: '0.5' });
  receiver.answers(answer.hang);
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  assert.deepEqual(await worker.stop(), { code: 0, signal: null });
  assert.equal((await subscriber.report()).events.queued, 1);

  await bus.start('worker');
  const second = await receiver.delivery(2);
  assert.deepEqual([second.id, second.attempt], [first.id, 2]);
  await until(async () => (await subscriber.report()).events.queued === 0);
});

test('a worker frozen past its lease loses its delivery to another, and continues afterwards', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const frozen = bus.process('worker');
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  frozen.signal('SIGSTOP');
  try {
    await bus.start('worker');
    const second = await receiver.delivery(2);
    assert.deepEqual([second.id, second.attempt], [first.id, 2]);
    await until(async () => (await queueOf(subscriber.token)) === 0);
  } finally {
    frozen.signal('SIGCONT');
  }
  release();
  await frozen.logs('the lease ran out before the job was done; its outcome does not count');
  const { events, health_points } = await subscriber.report();
  assert.equal(events.sent, 1, 'the ack of the one that was frozen changes nothing');
  assert.equal(health_points, 100);
  assert.deepEqual(await frozen.stop(), { code: 0, signal: null });
});

test('a lone worker frozen past its lease delivers again under a new lease', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const worker = bus.process('worker');
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  worker.signal('SIGSTOP');
  const { redis } = bus.store;
  const heard = async () =>
    Math.max(...Object.values(await redis.hgetall(bus.store.keys.workers())).map(Number));
  try {
    await until(async () => Number((await redis.time())[0]) * 1000 > (await heard()) + 1100);
  } finally {
    worker.signal('SIGCONT');
  }
  const second = await receiver.delivery(2);
  assert.equal(second.id, first.id);
  release();
  await worker.logs('the lease ran out before the job was done; its outcome does not count');
  await until(async () => (await queueOf(subscriber.token)) === 0);
  assert.equal((await subscriber.report()).events.sent, 1);
  assert.equal(receiver.deliveries.length, 2);
});

test('events queued at a full stop are delivered after the next start', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 60_000, max: 5 });
  await bus.process('worker').stop();
  await publisher.publish(
    topic,
    Array.from({ length: 10 }, (_, n) => ({ url: url(n) })),
  );
  await bus.process('web').stop();
  await Promise.all([bus.start('web'), bus.start('worker')]);
  await until(() => receiver.events.length === 10);
  await until(async () => (await queueOf(subscriber.token)) === 0);
  assert.equal(receiver.deliveries.length, 2);
});

test('every accepted event arrives while workers are killed again and again', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 50, max: 10 });
  const accepted: string[] = [];
  const publish = async (from: number) => {
    for (let n = from; n < from + 100; n += 5) {
      const events = Array.from({ length: 5 }, (_, i) => ({ url: url(n + i) }));
      await publisher.publish(topic, events);
      accepted.push(...events.map((event) => event.url));
    }
  };
  for (const answers of [true, false]) {
    const killed = new Promise<void>((resolve) => {
      // The worker is killed in turns: after the answer but before it can have told Redis, and before the answer.
      receiver.answers(answer.status(204), answer.status(204), (response) => {
        if (answers) answer.status(204)(response);
        resolve(bus.process('worker').kill());
      });
    });
    const first = accepted.length;
    await Promise.all([killed, ...[0, 100, 200, 300].map((n) => publish(first + n))]);
    await bus.start('worker');
  }
  await until(async () => (await queueOf(subscriber.token)) === 0);
  assert.equal(accepted.length, 800);
  assert.deepEqual(receiver.missing(accepted), []);
});
