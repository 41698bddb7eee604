import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { write, writesOf } from '../../harness/redis/append_only_file.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore({ appendonly: 'yes', appendfsync: 'no' });
const bus = new Bus(() => redis.store);

async function fill(): Promise<void> {
  await redis.flush();
  await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
  await bus.subscribe('bob', { topics: ['widgets'] });
  await bus.publish('a', 'widgets', ['e1']);
}

beforeEach(fill);
afterEach(() => assertConsistent(redis.store));

// A Redis that is killed while it writes its AOF may have the first writes of a script when it is back.
for (const [what, call] of [
  ['a publish to a new topic', () => bus.publish('b', 'gizmos', ['e2'])],
  ['a subscription to other topics', () => bus.subscribe('alice', { topics: ['gizmos'] })],
  [
    'the end of a subscription',
    () => bus.store.run('unsubscribe', { token: 'alice', topic: 'gadgets', isForeign: false }),
  ],
  ['the removal of a subscriber', () => bus.store.run('remove_subscriber', { token: 'alice', series: [] })],
] as const)
  test(`${what} of which Redis kept the first writes is completed by its repeat`, async () => {
    const writes = await writesOf(redis.redis, call);
    assert.ok(writes.length > 1);
    for (let kept = 1; kept < writes.length; kept++) {
      await fill();
      await write(redis.store, writes.slice(0, kept));
      await call();
      await sweep(redis.store);
      await assertConsistent(redis.store);
    }
  });

for (const [what, call] of [
  ['retired', () => bus.store.run('retire', { q: 'main', workers: ['w1'] })],
  ['was scrubbed', () => bus.scrub(-1)],
  ['was condemned', () => bus.condemn('w1')],
] as const)
  test(`a worker that ${what} when Redis kept the first writes does not count as alive for ever`, async () => {
    const { redis: commands, keys } = redis.store;
    await bus.acquire(['w1'], { idle: 0 });
    const writes = await writesOf(redis.redis, call);
    assert.ok(writes.length > 1);
    for (let kept = 1; kept < writes.length; kept++) {
      await fill();
      await bus.acquire(['w1'], { idle: 0 });
      await write(redis.store, writes.slice(0, kept));
      await bus.scrub(-1);
      assert.deepEqual(await commands.smembers(keys.workers_main()), []);
    }
  });
