import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { longName } from '../../harness/scripts/names.ts';
import { subscriptionsOf } from '../../harness/subscriptions.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const main = () => new Queue(redis.store, 'main', SETTINGS);
const aux = () => new Queue(redis.store, 'aux', SETTINGS);
const NO_RETRY = { delayMs: 0, damage: 0, throttleMs: 0 };

async function oneBatch() {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  const [grant] = (await main().acquire(['w1'])).grants;
  assert.ok(grant);
  return grant;
}

beforeEach(() => redis.flush());

describe('a grant', () => {
  test('of a delivery has its job, its batch and its subscriber', async () => {
    const earliest = await bus.nowMs();
    const { worker, job, batch, subscriber, atMs } = await oneBatch();
    assert.equal(worker, 'w1');
    assert.deepEqual(job, { name: 'batch', args: [longName('a1')] });
    const { createdAtMs = 0, ...rest } = batch ?? {};
    const pieces = ['e1', 'e2'].map((event) => Buffer.from(event));
    assert.deepEqual(rest, { bid: longName('a1'), token: 'alice', attempts: 1, count: 2, pieces });
    assert.ok(earliest <= createdAtMs && createdAtMs <= atMs);
    const { subscribed_at: subscribedAt = '' } = await bus.subscriber('alice');
    assert.ok(Number(subscribedAt) / 1000 >= earliest - 1000);
    const callback = 'https://alice.example/';
    assert.deepEqual(subscriber, { callback, uuid: 'u', subscribedAt, healthPoints: 100 });
  });

  test('has no subscriber when that one has left', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    const [grant] = (await main().acquire(['w1'])).grants;
    assert.equal(grant?.batch?.token, 'alice');
    assert.equal(grant?.subscriber, undefined);
  });

  test('of a subscriber that the Ruby Routemaster left without some fields has what they stand for', async () => {
    const { redis: commands } = bus.store;
    await bus.subscribe('alice', { max: 1 });
    await commands.hdel('subscriber:alice', 'uuid', 'health_points', 'subscribed_at');
    await bus.publish('a', 'widgets', ['e1']);
    const [grant] = (await main().acquire(['w1'])).grants;
    const callback = 'https://alice.example/';
    assert.deepEqual(grant?.subscriber, { callback, uuid: '', subscribedAt: '0', healthPoints: 100 });
  });

  test('of another job has the job alone; of bytes that are none, not even that', async () => {
    await aux().enqueue('scrub');
    const [grant] = (await aux().acquire(['x1'])).grants;
    assert.deepEqual(
      [grant?.job, grant?.batch, grant?.subscriber],
      [{ name: 'scrub', args: [] }, undefined, undefined],
    );
    await bus.store.redis.lpush('jobs:instant:main', 'garbage');
    const [odd] = (await main().acquire(['w1'])).grants;
    assert.deepEqual([odd?.job, odd?.packed], [undefined, Buffer.from('garbage')]);
    const finished = { grant: odd ?? assert.fail(), heal: 0, tookMs: 5 };
    assert.deepEqual(await main().ack(finished), { held: true, removed: 0, isGone: false });
  });
});

describe('what comes of a grant', () => {
  test('ack forgets it, once', async () => {
    const grant = await oneBatch();
    const finished = { grant, heal: 1, tookMs: 5 };
    assert.deepEqual(await main().ack(finished), { held: true, removed: 2, isGone: false });
    assert.deepEqual(await main().ack(finished), { held: false, removed: 0, isGone: true });
  });

  test('ack of a lost lease says that the batch is still there', async () => {
    const lost = { grant: await oneBatch(), heal: 1, tookMs: 5 };
    await bus.scrub(-1);
    assert.deepEqual(await main().ack(lost), { held: false, removed: 0, isGone: false });
  });

  test('nack takes it back, once; times are rounded up', async () => {
    const grant = await oneBatch();
    const retry = { delayMs: 0.2, damage: 2, throttleMs: 1.5 };
    assert.deepEqual(await main().nack(grant, retry), { held: true, paused: false });
    assert.deepEqual(await main().nack(grant, NO_RETRY), { held: false, paused: false });
    assert.deepEqual((await bus.state()).main.scheduled, ['a1']);
    assert.match((await bus.subscriber('alice')).throttled_until ?? '', /^\d{13}$/);
  });
});

describe('a dead letter', () => {
  const ATTEMPT = { atMs: 5, durationMs: 7, status: 500, reason: 'HTTP 500', answer: 'no' };
  const BURIAL = { attempt: ATTEMPT, reason: 'max_age', damage: 2, throttleMs: 0.5 } as const;

  test('comes of a bury, once, with the history of what was tried', async () => {
    const grant = await oneBatch();
    await main().nack(grant, { ...NO_RETRY, attempt: { atMs: 1, durationMs: 2, reason: 'cut' } });
    const [again = assert.fail()] = (await main().acquire(['w1'])).grants;
    assert.deepEqual(await main().bury(again, BURIAL), { held: true, buried: 2, dropped: 0, isGone: false });
    assert.deepEqual(await main().bury(again, BURIAL), { held: false, buried: 2, dropped: 0, isGone: false });
    const { redis: commands, keys } = bus.store;
    const history = await commands.lrange(keys.attempts(longName('a1')), 0, -1);
    assert.deepEqual(
      history.map((each) => JSON.parse(each)),
      [
        { at: 1, status: null, duration_ms: 2, reason: 'cut', answer: null },
        { at: 5, status: 500, duration_ms: 7, reason: 'HTTP 500', answer: 'no' },
      ],
    );
    assert.match((await bus.subscriber('alice')).throttled_until ?? '', /^\d{13}$/);
  });

  test('does not come of the batch of a subscriber that has left', async () => {
    const grant = await oneBatch();
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await main().bury(grant, BURIAL), { held: true, buried: 0, dropped: 2, isGone: false });
  });
});

test('a nack that pauses its subscriber has nothing tried any more', async () => {
  const grant = await oneBatch();
  const gone = grant.subscriber?.subscribedAt ?? '';
  const { held, paused } = await main().nack(grant, { ...NO_RETRY, delayMs: 1, gone });
  assert.deepEqual([held, paused], [true, true]);
  assert.deepEqual((await main().acquire(['w1'])).grants, []);
  assert.match((await bus.subscriber('alice')).paused_at ?? '', /^\d{13}$/);
});

test('a subscriber has the limits that it asked for', async () => {
  await subscriptionsOf(bus.store).subscribe('alice', {
    topics: ['widgets'],
    callback: 'https://alice.example/',
    uuid: 'u',
    max_events: 1,
    max_attempts: 3,
    max_age: 60_000,
  });
  await bus.publish('a', 'widgets', ['e']);
  const [grant] = (await main().acquire(['w1'])).grants;
  assert.deepEqual([grant?.subscriber?.maxAttempts, grant?.subscriber?.maxAgeMs], [3, 60_000]);
});

test('readyJobs tells whether to ask again', async () => {
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { topics: ['gadgets'], max: 1 });
  await bus.publish('a', 'widgets', ['e1']);
  await bus.publish('b', 'gadgets', ['e2', 'e3']);
  const { grants, readyJobs } = await main().acquire(['w1', 'w2']);
  assert.deepEqual([grants.length, readyJobs], [2, 1]);
});

test('enqueue says whether the job was put in', async () => {
  assert.equal(await aux().enqueue('scrub'), true);
  assert.equal(await aux().enqueue('scrub'), false);
});

test('due counts the jobs that are instant, and those that will be within the time given', async () => {
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { topics: ['gadgets'], timeout: 60_000 });
  assert.equal(await main().due(100_000), 0);
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await bus.publish('b', 'gadgets', ['e3']);
  assert.equal(await main().due(0), 2);
  assert.equal(await main().due(100_000), 3);
});

test('promoteDue tells when the next is due, and undefined when none is scheduled', async () => {
  const idle = await promoteDue(bus.store);
  assert.deepEqual([idle.promoted, idle.nextDueMs], [0, undefined]);
  await bus.subscribe('alice', { timeout: 60_000 });
  await bus.publish('a', 'widgets', ['e1']);
  const { promoted, nextDueMs = 0 } = await promoteDue(bus.store);
  assert.ok(promoted === 0 && nextDueMs > 50_000 && nextDueMs <= 60_000);
});

test('a heartbeat answers whose lease is lost', async () => {
  const grant = await oneBatch();
  assert.deepEqual(await main().heartbeat([]), []);
  assert.deepEqual(await main().heartbeat([grant, { ...grant, worker: 'w2' }]), ['w2']);
  assert.deepEqual(await main().heartbeat([{ ...grant, lease: grant.lease + 1 }]), ['w1']);
});

test('scrub, heartbeat and retire decide by worker who is alive', async () => {
  const grant = await oneBatch();
  assert.deepEqual(await main().heartbeat([grant]), []);
  assert.deepEqual(await bus.scrub(30_000), { workers: 0, jobs: [0, 0] });
  await main().retire(['w1', 'w2']);
  assert.deepEqual(Object.keys(await bus.store.redis.hgetall('workers')), ['w1']);
  assert.deepEqual(await bus.scrub(-1), { workers: 1, jobs: [1, 0] });
  assert.equal((await main().ack({ grant, heal: 1, tookMs: 5 })).held, false);
});
