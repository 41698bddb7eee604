import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { heartbeat, promoteDue, Queue, scrub } from '../../src/models/queue.ts';
import { Bus } from '../support/bus.ts';
import { longName } from '../support/names.ts';
import { TestStore } from '../support/store.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const main = () => new Queue(redis.store, 'main', 10);
const aux = () => new Queue(redis.store, 'aux', 10);
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
    const events = [Buffer.from('e1'), Buffer.from('e2')];
    assert.deepEqual(rest, { bid: longName('a1'), token: 'alice', attempts: 1, events });
    assert.ok(earliest <= createdAtMs && createdAtMs <= atMs);
    assert.deepEqual(subscriber, { callback: 'https://alice.example/', uuid: 'u', healthPoints: 100 });
  });

  test('has no subscriber when that one has left', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await bus.store.run('remove_subscriber', 'alice');
    const [grant] = (await main().acquire(['w1'])).grants;
    assert.equal(grant?.batch?.token, 'alice');
    assert.equal(grant?.subscriber, undefined);
  });

  test('of a subscriber that the Ruby Routemaster left without some fields has what they stand for', async () => {
    const { redis: commands } = bus.store;
    await bus.subscribe('alice', { max: 1 });
    await commands.hdel('subscriber:alice', 'uuid', 'health_points');
    await bus.publish('a', 'widgets', ['e1']);
    const [grant] = (await main().acquire(['w1'])).grants;
    assert.deepEqual(grant?.subscriber, { callback: 'https://alice.example/', uuid: '', healthPoints: 100 });
  });

  test('of another job has the job alone; of bytes that are none, not even that', async () => {
    await aux().enqueue('scrub', 30_000);
    const [grant] = (await aux().acquire(['x1'])).grants;
    assert.deepEqual(
      [grant?.job, grant?.batch, grant?.subscriber],
      [{ name: 'scrub', args: [] }, undefined, undefined],
    );
    await bus.store.redis.lpush('jobs:instant:main', 'garbage');
    const [odd] = (await main().acquire(['w1'])).grants;
    assert.deepEqual([odd?.job, odd?.packed], [undefined, Buffer.from('garbage')]);
    assert.deepEqual(await main().ack(odd ?? assert.fail(), 0), { held: true, removed: 0, left: 0 });
  });
});

describe('what comes of a grant', () => {
  test('ack forgets it, once', async () => {
    const grant = await oneBatch();
    assert.deepEqual(await main().ack(grant, 1), { held: true, removed: 2, left: 0 });
    assert.deepEqual(await main().ack(grant, 1), { held: false, removed: 0, left: 0 });
  });

  test('nack takes it back, once; times are rounded up', async () => {
    const grant = await oneBatch();
    assert.equal(await main().nack(grant, { delayMs: 0.2, damage: 2, throttleMs: 1.5 }), true);
    assert.equal(await main().nack(grant, NO_RETRY), false);
    assert.deepEqual((await bus.state()).main.scheduled, ['a1']);
    assert.match((await bus.subscriber('alice')).throttled_until ?? '', /^\d{13}$/);
  });
});

test('left tells whether to ask again', async () => {
  await bus.subscribe('alice', { max: 1 });
  await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
  const { grants, left } = await main().acquire(['w1', 'w2']);
  assert.deepEqual([grants.length, left], [2, 1]);
});

test('enqueue says whether the job was put in', async () => {
  assert.equal(await aux().enqueue('scrub', 30_000), true);
  assert.equal(await aux().enqueue('scrub', 30_000), false);
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
  assert.deepEqual(await promoteDue(bus.store), { promoted: 0 });
  await bus.subscribe('alice', { timeout: 60_000 });
  await bus.publish('a', 'widgets', ['e1']);
  const { promoted, nextDueMs = 0 } = await promoteDue(bus.store);
  assert.ok(promoted === 0 && nextDueMs > 50_000 && nextDueMs <= 60_000);
});

test('scrub, heartbeat and retire decide by worker who is alive', async () => {
  const grant = await oneBatch();
  await heartbeat(bus.store, ['w1', 'w2']);
  assert.deepEqual(await scrub(bus.store, 30_000), { workers: 0, jobs: { main: 0, aux: 0 } });
  await main().retire(['w1', 'w2']);
  assert.deepEqual(Object.keys(await bus.store.redis.hgetall('workers')), ['w1']);
  assert.deepEqual(await scrub(bus.store, -1), { workers: 1, jobs: { main: 1, aux: 0 } });
  assert.equal((await main().ack(grant, 1)).held, false);
});
