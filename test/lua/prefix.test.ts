import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { Clients } from '../../src/authentication/client.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { Partition } from '../../src/store/partition.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const partition = (prefix: string) => {
  const store = new Partition(redis.store.redis, { prefix });
  return new Bus(() => store);
};

beforeEach(() => redis.flush());

/** Calls every script at least once, and the code of the bus that writes without scripts. */
async function everything(bus: Bus): Promise<void> {
  const { store } = bus;
  await prepareStorage(store, 30_000, createLog('silent', {}));
  await new Clients(store, []).create('billing');
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { topics: ['widgets', 'gadgets'] });
  await bus.subscribe('carol', { topics: ['widgets'] });
  await bus.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e6']);
  await bus.publish('b', 'gadgets', ['e5']);
  await bus.acquire(['w1', 'w2', 'w3']);
  await bus.ack('w1', 'a1');
  for (const name of ['a3', 'a4', 'a5']) {
    await bus.bury('w3', name);
    await bus.acquire(['w3']);
  }
  await bus.revive('alice', 'a3');
  await bus.purge('alice', 'a4');
  await bus.acquire(['w3']);
  await bus.nack('w2', 'a2', { delayMs: 60_000, damage: 2, throttleMs: 60_000 });
  await bus.enqueue('scrub');
  await bus.enqueue('monitor');
  await bus.acquire(['x1'], { q: 'aux' });
  await bus.heartbeat(['w2', 'w3', 'x1']);
  await store.run('retire', { q: 'main', workers: ['w1'] });
  await bus.scrub(-1);
  await bus.schedule();
  await store.run('count', { process: 'process', flush: 1, counts: [{ field: 'field', count: 1 }] });
  await store.run('report', { reports: [{ field: 'field', from: 0, to: 1 }] });
  await store.run('unsubscribe', { token: 'bob', topic: 'gadgets', isForeign: false });
  await store.run('remove_topic', { topic: 'gadgets', series: [] });
  await store.run('remove_subscriber', { token: 'carol', series: [] });
  await bus.dropQueue('carol');
  await bus.autodrop(1);
  await store.run('sweep_batches', { where: 'ruby_batch', names: ['aaaaaaaaaaaaaaaaaaaB'] });
  await assertNothingToSweep(store);
}

test('all keys of a partition begin with its prefix, and partitions share none', async () => {
  const [zero, one] = [partition('{0}:'), partition('{1}:')];
  await everything(zero);
  await assertConsistent(zero.store);
  const before = await snapshot(zero.store);
  assert.ok(Object.keys(before).includes('{0}:schema'));
  assert.ok(Object.keys(before).every((key) => key.startsWith('{0}:')));

  await everything(one);
  const after = Object.entries(await snapshot(one.store));
  assert.deepEqual(Object.fromEntries(after.filter(([key]) => key.startsWith('{0}:'))), before);
  assert.ok(after.every(([key]) => /^\{[01]\}:/.test(key)));
});

test('without a prefix the same calls leave the same keys, unprefixed', async () => {
  const [plain, zero] = [partition(''), partition('{0}:')];
  await everything(plain);
  const state = await plain.state();
  assert.notDeepEqual(state.main, EMPTY_QUEUE);
  await assertConsistent(plain.store);
  await redis.flush();
  await everything(zero);
  assert.deepEqual(await zero.state(), state);
});

test('each partition announces on a channel of its own', async () => {
  const listener = await Listener.open(redis.store, '', '{0}:');
  const heard = await listener.during(redis.store, () => partition('{0}:').enqueue('scrub'));
  listener.close();
  assert.deepEqual(heard, ['{0}:wake:aux']);
});
