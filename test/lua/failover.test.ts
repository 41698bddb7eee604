import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { JoinCalls, joinEvent } from '../../harness/scripts/join_calls.ts';
import { packNamed } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import type { Partition } from '../../src/store/partition.ts';

const [port, portOfReplica] = [String(await freePort()), String(await freePort())];
const lost = new TestStore({ port, 'repl-diskless-sync-delay': '0' });
let replica: PrivateRedis;
let promoted: Partition;
const before = new Bus(() => lost.store);
const after = new Bus(() => promoted);

aroundTests(
  async () => {
    replica = await PrivateRedis.start({ config: { port: portOfReplica, 'repl-diskless-sync-delay': '0' } });
    promoted = await openStore(replica.url);
  },
  async () => {
    promoted.redis.disconnect();
    await replica.stop();
  },
);

beforeEach(async () => {
  await promoted.redis.replicaof('127.0.0.1', port);
  await lost.flush();
});

afterEach(() => assertConsistent(promoted));

/** Makes the replica a master with all that its master has by now. It gets nothing that its master stores later. */
async function promote(): Promise<void> {
  const hasAll = async () => (await lost.store.redis.wait(1, 100)) === 1 || undefined;
  await until(hasAll, { what: 'the replica has all' });
  await promoted.redis.replicaof('NO', 'ONE');
}

test('a batch that the lost master had delivered gets no more events: its receiver would take them for repeats', async () => {
  await before.subscribe('alice', { timeout: 0 });
  await before.publish('a', 'widgets', ['e1']);
  await promote();
  const { grants } = await before.acquire(['w']);
  assert.deepEqual(grants[0]?.batch?.slice(3), ['e1']);

  await after.publish('b', 'widgets', ['e2']);
  await after.publish('c', 'widgets', ['e3']);
  const { batches, current } = await after.state();
  assert.deepEqual([batches.a1?.events, batches.b1?.events], [['e1'], ['e2', 'e3']]);
  assert.deepEqual(current, { alice: ['b1'] });
});

test('it gets none either where the lost master lived on, and is the master again', async () => {
  await before.subscribe('alice', { timeout: 0 });
  await before.publish('a', 'widgets', ['e1']);
  await promote();
  await before.acquire(['w']);
  await after.scrub(60_000);
  await lost.store.redis.replicaof('127.0.0.1', portOfReplica);
  const hasAll = async () => (await promoted.redis.wait(1, 100)) === 1 || undefined;
  await until(hasAll, { what: 'the lost master has all' });
  await lost.store.redis.replicaof('NO', 'ONE');

  await before.publish('b', 'widgets', ['e2']);
  const { batches } = await before.state();
  assert.deepEqual([batches.a1?.events, batches.b1?.events], [['e1'], ['e2']]);
});

test('a batch has not the id of a part of it that the lost master had delivered', async () => {
  await before.subscribe('alice', { max: 3 });
  await before.publish('a', 'widgets', ['e1', 'e2', 'e3']);
  await promote();
  await before.subscribe('alice', { max: 2 });
  const delivered = (await before.acquire(['v', 'w'])).grants;
  assert.deepEqual(
    delivered.map(({ batch }) => batch?.slice(3)),
    [['e1', 'e2'], ['e3']],
  );

  const [whole] = (await after.acquire(['w'])).grants;
  assert.deepEqual(whole?.batch?.slice(3), ['e1', 'e2', 'e3']);
  assert.ok(delivered.every(({ job }) => job !== whole?.job));
});

test('outbox entries have other numbers than lost ones where the lost master lived on, and is the master again', async () => {
  const number = async ({ redis, keys }: Partition) =>
    Number((await redis.lindex(keys.outbox(), -1))?.slice(0, 16));
  await before.publish('a', 'widgets', ['e1']);
  await lost.store.redis.hset(lost.store.keys.topic('widgets'), 'elsewhere', '1:1:1');
  await before.publish('b', 'widgets', ['e2']);
  await promote();
  await after.scrub(60_000);
  await lost.store.redis.replicaof('127.0.0.1', portOfReplica);
  await until(async () => (await promoted.redis.wait(1, 100)) === 1 || undefined, {
    what: 'the former master has all',
  });
  await lost.store.redis.replicaof('NO', 'ONE');
  await after.publish('c', 'widgets', ['e3']);

  await before.publish('d', 'widgets', ['e4']);
  const [lostNumber, next] = [await number(promoted), await number(lost.store)];
  assert.ok(next > lostNumber, `${next} is higher than ${lostNumber}`);
});

test('a batch that was open then is delivered when it is due, and an ordered subscriber gets it first', async () => {
  await before.subscribe('alice', { ordered: 1, timeout: 0 });
  await before.publish('a', 'widgets', ['e1']);
  await promote();

  await after.publish('b', 'widgets', ['e2']);
  const handed = async (worker: string) => (await after.acquire([worker])).grants[0]?.batch?.slice(3);
  assert.deepEqual(await handed('v'), ['e1']);
  assert.equal(await handed('w'), undefined);
  await after.ack('v', 'a1');
  assert.deepEqual(await handed('w'), ['e2']);
});

test('an ordered subscriber gets a batch that is full only after the one that was closed before its deadline', async () => {
  await before.subscribe('alice', { ordered: 1, max: 2 });
  await before.publish('a', 'widgets', ['e1']);
  await promote();

  await after.publish('b', 'widgets', ['e2', 'e3']);
  const handed = async (worker: string) => (await after.acquire([worker])).grants[0]?.batch?.slice(3);
  assert.equal(await handed('v'), undefined, 'the older batch waits for its deadline');
  await promoted.redis.zadd(promoted.keys.jobs_scheduled('main'), 1, packNamed('a1'));
  await after.schedule();
  assert.deepEqual(await handed('v'), ['e1']);
  assert.equal(await handed('w'), undefined);
  await after.ack('v', 'a1');
  assert.deepEqual(await handed('w'), ['e2', 'e3']);
});

test('an event that a join publishes never has the id of another one that the lost master had delivered', async () => {
  /** Counts an event with this key. Returns the event that the join publishes about the key. */
  const joined = async (bus: Bus, key: string) => {
    const joins = new JoinCalls(bus);
    await bus.publish(key, 'paid', [joinEvent('paid', key)]);
    await joins.work('order');
    const { batches } = await bus.state();
    const ofOffice = Object.values(batches).find(({ token }) => token === 'office');
    return JSON.parse(ofOffice?.events[0] ?? '') as { id: string; data: { key: string } };
  };
  await before.subscribe('office', { topics: ['ready'] });
  await new JoinCalls(before).put('order', { sources: [{ topic: 'paid', count: 1 }] });
  await promote();
  const [delivered, other] = [await joined(before, 'a'), await joined(after, 'b')];
  assert.deepEqual([delivered.data.key, other.data.key], ['a', 'b']);
  assert.notEqual(delivered.id, other.id);
});

test('an event about an expired key has not the id of one that the lost master had delivered when the key was complete', async () => {
  const joins = { before: new JoinCalls(before), after: new JoinCalls(after) };
  const published = async (bus: Bus) => {
    const { batches } = await bus.state();
    const ofOffice = Object.values(batches).filter(({ token }) => token === 'office');
    return ofOffice.flatMap(({ events }) => events.map((text) => JSON.parse(text)));
  };
  await before.subscribe('office', { topics: ['ready', 'missing'] });
  await joins.before.put('order', { sources: [{ topic: 'paid', count: 1 }] });
  await before.publish('a', 'paid', [joinEvent('paid', 'k')]);
  await promote();
  await joins.before.work('order');

  const later = { sources: [{ topic: 'paid', count: 2 }], within: 1 };
  await joins.after.put('order', { ...later, on_expiry: { topic: 'missing', type: 'noop' } });
  await joins.after.work('order');
  await until(async () => (await joins.after.expire('order')).expired === 1);
  const [[complete], [expired]] = [await published(before), await published(after)];
  assert.deepEqual([complete.topic, expired.topic], ['ready', 'missing']);
  assert.deepEqual(expired.data.events, complete.data.events);
  assert.notEqual(expired.id, complete.id);
});
