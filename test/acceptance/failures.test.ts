import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { RunningBus, type Scene } from '../../harness/processes/running_bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { until } from '../../harness/until.ts';
import { uidSeed } from '../../src/ids.ts';

const TIMEOUT_MS = 500;
const url = (n: number) => `https://shop.example.com/widgets/${n}`;

const bus = RunningBus.forTests({ env: { ROUTEMASTER_TIMEOUT: String(TIMEOUT_MS / 1000) } });

/** Waits until the one event of a test was taken after one failure. Resolves with both attempts. */
async function takenAtTheSecondAttempt({ publisher, topic, subscriber, receiver }: Scene) {
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  const second = await receiver.delivery(2);
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.equal(second.id, first.id);
  assert.equal(second.body, first.body);
  assert.deepEqual([first.attempt, second.attempt], [1, 2]);
  const { health_points, events } = await subscriber.report();
  assert.equal(health_points, 99, 'two points lost, and one gained');
  assert.equal(events.sent, 1);
  assert.equal(receiver.deliveries.length, 2);
  return { first, second };
}

test('a subscriber that fails gets the same batch again, loses health, and regains it', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.answers(answer.status(500));
  const release = receiver.hold();
  const beganMs = Date.now();
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  const second = await receiver.delivery(2);
  assert.deepEqual([first.attempt, second.attempt], [1, 2]);
  assert.equal(second.id, first.id);
  assert.equal(second.body, first.body);
  const failing = await subscriber.report();
  assert.equal(failing.health_points, 98);
  assert.deepEqual([failing.events.sent, failing.events.queued], [0, 1]);
  assert.ok(Number(failing.events.oldest) >= beganMs);
  assert.ok(Number(failing.last_attempted_at) >= Number(failing.events.oldest));
  release();
  await until(async () => (await subscriber.report()).events.sent === 1);
  const { health_points, events } = await subscriber.report();
  assert.equal(health_points, 99);
  assert.deepEqual(events, { sent: 1, queued: 0, oldest: null });
});

test('Retry-After is honoured, for all batches of the subscriber', async (t) => {
  const { publisher, topic, receiver, subscriber } = await bus.scene(t);
  receiver.answers(answer.status(503, { 'retry-after': '1' }));
  await publisher.publish(topic, { url: url(1) });
  const first = await receiver.delivery(1);
  await until(async () => (await subscriber.report()).health_points === 98);
  await publisher.publish(topic, { url: url(2) });
  await until(() => receiver.urls.length === 2);
  const early = receiver.deliveries.slice(1).filter(({ atMs }) => atMs - first.atMs < 999);
  assert.deepEqual(early, []);
});

test('a redirect is a failure, and is not followed', async (t) => {
  const scene = await bus.scene(t);
  const elsewhere = await bus.receiver(t);
  scene.receiver.answers(answer.status(307, { location: elsewhere.callback }));
  await takenAtTheSecondAttempt(scene);
  assert.deepEqual(elsewhere.deliveries, []);
});

test('a delivery without an answer fails at the time limit', async (t) => {
  const scene = await bus.scene(t);
  scene.receiver.answers(answer.hang);
  const { first, second } = await takenAtTheSecondAttempt(scene);
  assert.ok(second.atMs - first.atMs >= TIMEOUT_MS - 50, `${second.atMs - first.atMs} ms`);
});

test('a connection that breaks off is a failure', async (t) => {
  const scene = await bus.scene(t);
  scene.receiver.answers(answer.reset);
  await takenAtTheSecondAttempt(scene);
});

test('a 2xx accepts the batch even if its body never ends', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.answers(answer.endless);
  await publisher.publish(topic, { url: url(1) });
  await until(async () => (await subscriber.report()).events.sent === 1);
  await publisher.publish(topic, { url: url(2) });
  await until(async () => (await subscriber.report()).events.sent === 2);
  assert.deepEqual(receiver.urls, [url(1), url(2)]);
  assert.equal((await subscriber.report()).health_points, 100);
});

test('a callback without a listener is tried until one listens', async (t) => {
  const scene = await bus.scene(t);
  const { publisher, topic, subscriber, receiver } = scene;
  const gone = await bus.receiver(t);
  const { callback } = gone;
  await gone.stop();
  const subscribe = (to: string) =>
    subscriber.call('POST', '/subscription', { topics: [topic], callback: to, uuid: 'me' });
  await subscribe(callback);
  await publisher.publish(topic, { url: url(1) });
  await until(async () => (await subscriber.report()).health_points <= 98);
  await subscribe(receiver.callback);
  await until(() => receiver.urls.length === 1);
  assert.ok((await receiver.delivery(1)).attempt >= 2);
});

test('a subscriber that hangs does not slow another', async (t) => {
  const { publisher, topic, receiver: slow } = await bus.scene(t);
  slow.usual = answer.hang;
  const subscriber = await bus.client('quick');
  const quick = await bus.receiver(t);
  const { callback } = quick;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, timeout: 0, max: 1 });
  for (let n = 1; n <= 8; n++) await publisher.publish(topic, { url: url(n) });
  await until(() => quick.urls.length === 8);
  assert.deepEqual(slow.urls, []);
  slow.usual = answer.status(204);
  await until(() => slow.urls.length === 8, { what: 'the slow one gets all in the end' });
});

const pausesInAudit = async () =>
  (await bus.root.call('GET', '/audit?action=subscriber.pause')) as Record<string, unknown>[];

test('410 Gone pauses deliveries until the subscriber subscribes again, and loses no event', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.answers(answer.status(410));
  await publisher.publish(topic, { url: url(1) });
  await until(async () => (await subscriber.report()).paused_at !== null);
  await publisher.publish(topic, { url: url(2) });
  await until(async () => (await subscriber.report()).events.queued === 2);
  const about = await until(async () => (await pausesInAudit()).find(({ role }) => role === 'bus'));
  const { target, status, code } = about;
  assert.deepEqual([target, status, code], [subscriber.token, 410, 'callback_gone']);
  const moved = await bus.receiver(t);
  const { callback } = moved;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, uuid: 'me' });
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.deepEqual(moved.urls.sort(), [url(1), url(2)]);
  assert.equal(receiver.deliveries.length, 1);
  assert.equal((await subscriber.report()).paused_at, null);
});

test('what is paused is kept, and delivered when it is resumed: whatever an operator paused, by an operator alone', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const paused = () => bus.metric('routemaster_subscribers_paused', { by: 'operator' });
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  await receiver.delivery(1);
  await bus.root.call('POST', `/subscribers/${subscriber.token}/pause`);
  release();
  await until(async () => (await subscriber.report()).events.sent === 1, { what: 'what was under way ends' });
  for (const n of [2, 3]) await publisher.publish(topic, { url: url(n) });
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', {
    topics: [topic],
    callback,
    uuid: 'me',
    max: 1,
    timeout: 0,
  });
  await assert.rejects(subscriber.call('POST', '/subscriber/resume'), /paused_by_operator/);
  assert.equal(await paused(), 1);
  // Another subscriber of the topic gets what this one does not.
  const other = await bus.client('other');
  const others = await bus.receiver(t);
  await other.call('POST', '/subscription', { topics: [topic], callback: others.callback, timeout: 0 });
  await publisher.publish(topic, { url: url(4) });
  await until(() => others.urls.length === 1);
  const { events, paused_by } = await subscriber.report();
  assert.deepEqual([paused_by, events.queued, receiver.deliveries.length], ['operator', 3, 1]);
  await bus.root.call('POST', `/subscribers/${subscriber.token}/resume`);
  await until(() => receiver.urls.length === 4);
  assert.deepEqual(receiver.urls.sort(), [1, 2, 3, 4].map(url));
  assert.equal(await paused(), 0);
});

test('a batch becomes a dead letter after the maximum attempts of its subscriber, and the next is delivered', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, uuid: 'me', max_attempts: 2 });
  bus.announceError(/gave up on a batch/);
  receiver.answers(answer.status(500), answer.status(500));
  await publisher.publish(topic, { url: url(1) });
  await until(async () => (await subscriber.report()).dead_letters.batches === 1);
  await publisher.publish(topic, { url: url(2) });
  await until(async () => receiver.urls.length > 0 && (await subscriber.report()).events.queued === 0);
  assert.deepEqual(receiver.urls, [url(2)]);
  assert.deepEqual((await subscriber.report()).dead_letters, { batches: 1, events: 1 });
});

test('a batch that cannot be decoded becomes a dead letter at once; no process ends, and other batches are delivered', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  bus.announceError(/a job failed; its batch is a dead letter now/);
  const garbled = { topic, client: publisher.token, events: ['garbled'] };
  const limits = { uidSeed: uidSeed(), ...PUBLISH_LIMITS };
  await bus.partitions.ofTopic(topic).run('publish', { ...limits, publications: [garbled] });
  await until(async () => (await subscriber.report()).dead_letters.batches === 1);
  await publisher.publish(topic, { url: url(1) });
  await until(async () => receiver.urls.length > 0 && (await subscriber.report()).events.queued === 0);
  assert.deepEqual(receiver.urls, [url(1)]);
  assert.equal((await subscriber.report()).health_points, 100);
});
