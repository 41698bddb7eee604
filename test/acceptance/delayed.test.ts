import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BusAnswerError } from '../../harness/http/bus_client.ts';
import type { Event } from '../../harness/http/client.ts';
import type { Receiver } from '../../harness/http/receiver.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { msOf } from '../../src/store/replies.ts';

const MB = 1024 * 1024;
const bus = RunningBus.forTests({
  env: { ROUTEMASTER_WORKER_LEASE: '2', ROUTEMASTER_REDIS_MAX_MEM: String(100 * MB) },
  redis: { appendonly: 'yes', appendfsync: 'always' },
});
bus.announceError(/Redis is short of memory, and dropping batches does not help/);

const url = (n: number | string) => `https://shop.example.com/widgets/${n}`;
const ids = (receiver: Receiver) => receiver.events.map(({ id }) => id);
/** Returns the time of Redis's clock, by which events are due. */
const nowMs = async () => msOf(await bus.store.redis.time());

test('events come at their times and not before, in the order of these', async (t) => {
  const { publisher, topic, receiver, subscriber } = await bus.scene(t);
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', {
    topics: [topic],
    callback,
    uuid: 'me',
    timeout: 0,
    ordered: true,
  });
  const beganMs = performance.now();
  // A loaded machine may take most of a second for the call that publishes these events.
  const at = (await nowMs()) + 1000;
  await publisher.publish(topic, [
    { id: 'last', url: url(1), delay: 1500 },
    { id: 'now', url: url(2) },
    { id: 'first', url: url(3), at },
    { id: 'then', url: url(4), delay: 1250, timestamp: 5 },
    { id: 'past', url: url(5), at: at - 100_000 },
  ]);
  await until(() => receiver.events.length === 5);
  assert.deepEqual(ids(receiver), ['now', 'past', 'first', 'then', 'last']);
  const came = Object.fromEntries(
    receiver.deliveries.flatMap(({ events, atMs }) => events.map(({ id }) => [id, atMs - beganMs])),
  );
  assert.ok(
    (came.last ?? 0) >= 1500 && (came.then ?? 0) >= 1250 && (came.first ?? 0) >= 950,
    JSON.stringify(came),
  );
  const [, past, first, then, last] = receiver.events;
  assert.deepEqual([past?.t, first?.t, then?.t], [at - 100_000, at, 5]);
  assert.ok((last?.t ?? 0) > at && (last?.t ?? 0) <= (await nowMs()));
  assert.equal(await bus.metric('routemaster_events_delayed', { topic }), 0);
  await until(async () => (await bus.metric('routemaster_events_published_total', { topic })) === 5);
  await until(async () => (await bus.metric('routemaster_delayed_lateness_seconds_count')) >= 3);
});

test('an event that is deleted before its time does not come', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await publisher.publish(topic, [
    { id: 'stays', url: url(1), delay: 2000 },
    { id: 'goes', url: url(2), delay: 1500 },
  ]);
  assert.equal(await bus.metric('routemaster_events_delayed', { topic }), 2);
  await publisher.call('DELETE', `/topics/${topic}/delayed/goes`);
  const listed = (await publisher.call('GET', `/topics/${topic}/delayed`)) as { event: { id: string } }[];
  assert.deepEqual(
    listed.map(({ event }) => event.id),
    ['stays'],
  );
  await until(() => receiver.events.length > 0);
  assert.deepEqual(ids(receiver), ['stays']);
});

test('pages have every event that waits once, in the order in which they are due', async (t) => {
  const { publisher, topic } = await bus.scene(t);
  const events = Array.from({ length: 25 }, (_, n) => ({
    id: `e${n}`,
    url: url(n),
    delay: 60_000 + 1000 * (n % 5),
  }));
  await publisher.publish(topic, events);
  const found: string[] = [];
  const authorization = `Basic ${btoa(`${publisher.token}:${publisher.secret}`)}`;
  for (let path: string | undefined = `/topics/${topic}/delayed?limit=10`; path; ) {
    const response = await fetch(bus.url + path, { headers: { authorization } });
    found.push(...((await response.json()) as { event: { id: string } }[]).map(({ event }) => event.id));
    path = /^<(.*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
  }
  const sorted = events.toSorted((one, other) => one.delay - other.delay);
  assert.deepEqual(
    found,
    sorted.map(({ id }) => id),
  );
  await publisher.call('DELETE', `/topics/${topic}`);
});

test('a topic that is deleted takes what waits along, which the log says', async (t) => {
  const { publisher, topic } = await bus.scene(t);
  await publisher.publish(topic, { url: url(1), delay: 60_000 });
  await publisher.call('DELETE', `/topics/${topic}`);
  const { log } = bus.process('web');
  const line = await until(() => log.find((each) => each.topic === topic));
  assert.deepEqual([line.msg, line.delayed], ['deleted a topic with its delayed events', 1]);
});

test('what waits of a client that is removed is published', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await publisher.publish(topic, { id: 'e', url: url(1), delay: 300 });
  await bus.root.call('DELETE', `/api_tokens/${publisher.token}`);
  await until(() => receiver.events.length === 1);
});

test('a client may have so many, and is told what to change', async (t) => {
  const { publisher, topic } = await bus.scene(t);
  const web = bus.process('web');
  await bus.start('web', { ROUTEMASTER_MAX_CLIENT_DELAYED: '2', ROUTEMASTER_CLIENT_DELAYED_SHARE: '1' });
  const limited = bus.clientOf(publisher.token, publisher.secret);
  const refused = (event: Event | Event[]) =>
    assert.rejects(limited.publish(topic, event), (error) => {
      assert.ok(error instanceof BusAnswerError && error.status === 409);
      return /limit_reached.*ROUTEMASTER_(MAX_CLIENT_DELAYED|CLIENT_DELAYED_SHARE)/s.test(error.message);
    });
  const large = Array.from({ length: 2 }, (_, n) => ({
    url: url(n),
    delay: 60_000,
    data: 'x'.repeat(60_000),
  }));
  await refused([...large, ...large]);
  await limited.publish(topic, large);
  await refused({ url: url(3), delay: 60_000 });
  await limited.publish(topic, { url: url(4) });
  await publisher.call('DELETE', `/topics/${topic}`);
  await bus.process('web').stop();
  await web.stop();
  await bus.start('web');
});

/** Checks that each event was stored once: an event that came twice came in the same batch. */
function assertStoredOnce(receiver: Receiver, expected: readonly string[]): void {
  const batches = new Map<string, string>();
  for (const { id: batch, taken, events } of receiver.deliveries)
    for (const { id } of taken ? events : []) {
      assert.equal(batches.get(id) ?? batch, batch, `${id} was stored once`);
      batches.set(id, batch);
    }
  assert.deepEqual([...batches.keys()].sort(), [...expected].sort());
}

test('1,000 events that are due while workers are killed are published once each', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { max: 20 });
  const workers = [bus.process('worker'), await bus.start('worker')];
  const events = Array.from({ length: 1000 }, (_, n) => ({
    id: `e${n}`,
    url: url(n),
    delay: 300 + (n % 50),
  }));
  // Each of the two workers is killed once.
  for (let kill = 0; kill < 2; kill++) {
    const { length } = receiver.events;
    await publisher.publish(topic, events.slice(500 * kill, 500 * (kill + 1)));
    await until(() => receiver.events.length > length, { everyMs: 2 });
    await workers[kill % 2]?.kill();
    workers[kill % 2] = await bus.start('worker');
  }
  await until(() => new Set(ids(receiver)).size === 1000);
  const { redis: commands, keys } = bus.partitions.ofSubscriber(subscriber.token);
  await until(async () => (await commands.hlen(keys.gauge_events())) === 0);
  assertStoredOnce(
    receiver,
    events.map(({ id }) => id),
  );
  await workers[0]?.stop();
});

test('events that fall due while no worker runs come in their order when one does', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 100 });
  await bus.process('worker').stop();
  await publisher.publish(topic, [
    { id: 'second', url: url(2), delay: 60 },
    { id: 'first', url: url(1), delay: 30 },
  ]);
  const due = (await nowMs()) + 60;
  await until(async () => (await nowMs()) > due);
  await bus.start('worker');
  await until(() => receiver.events.length === 2);
  assert.deepEqual(ids(receiver), ['first', 'second']);
});

test('what waits outlives a Redis that is killed', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 100 });
  const events = Array.from({ length: 200 }, (_, n) => ({ id: `e${n}`, url: url(n), delay: 10 * n }));
  await publisher.publish(topic, events, 'a-key');
  await until(() => receiver.events.length > 20);
  await bus.redis.kill('SIGKILL');
  await bus.redis.restart();
  await until(() => new Set(ids(receiver)).size === 200);
  assertStoredOnce(
    receiver,
    events.map(({ id }) => id),
  );
  await until(() => publisher.publish(topic, events, 'a-key').then(() => true));
  assert.deepEqual(await publisher.call('GET', `/topics/${topic}/delayed`), [], 'the key is known');
});

test('events that fall due while memory is short wait until it is not', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await publisher.publish(topic, { id: 'e', url: url(1), delay: 700 });
  const { redis } = bus.store;
  await redis.setrange(`${bus.store.keys.idempotency('x'.repeat(22))}`, 110 * MB, 'x');
  const worker = bus.process('worker');
  await until(() =>
    worker.log.some(
      ({ msg, kind, full }) => /cannot publish what is due/.test(msg) && kind === 'delayed' && full,
    ),
  );
  assert.deepEqual(ids(receiver), []);
  assert.equal(await redis.zcard(bus.partitions.ofTopic(topic).keys.delayed_due(topic)), 1);
  await redis.del(bus.store.keys.idempotency('x'.repeat(22)));
  await until(() => receiver.events.length === 1);
});
