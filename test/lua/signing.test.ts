import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const sign = (signingKey: string) => bus.subscribe('alice', { signingKey });
const signing = async () => (await bus.subscriber('alice')).signing?.split(' ');
const set = (...entries: string[]) => bus.store.redis.hset('subscriber:alice', 'signing', entries.join(' '));

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

/** `Bus.subscribe` lets a replaced key sign for a minute more. */
describe('the keys of a subscriber', () => {
  test('are none unless it asks for one, and none again when it wants none', async () => {
    await sign('');
    assert.equal(await signing(), undefined);
    await sign('a');
    await sign('');
    assert.deepEqual(await signing(), ['a']);
    await sign('none');
    assert.equal(await signing(), undefined);
  });

  test('are the newest, and for a while those that it replaced, each until its own time', async () => {
    await sign('a');
    const now = await bus.nowMs();
    await sign('b');
    const [newest, old = ''] = (await signing()) ?? [];
    const [key, untilMs] = old.split('@');
    assert.deepEqual([newest, key], ['b', 'a']);
    assert.ok(Number(untilMs) >= now + 60_000 && Number(untilMs) <= (await bus.nowMs()) + 60_000);
    await sign('c');
    assert.deepEqual((await signing())?.slice(2), [old], 'its time is not put off');
  });

  test('lose those whose time is over', async () => {
    await sign('a');
    const later = (await bus.nowMs()) + 1000;
    await set('a', `b@${later}`, 'c@1');
    await sign('d');
    const keys = (await signing())?.map((entry) => entry.split('@')[0]);
    assert.deepEqual([keys, (await signing())?.[2]], [['d', 'a', 'b'], `b@${later}`]);
  });

  test('lose those that cannot be read', async () => {
    await sign('a');
    await set('b@c', '@', 'd@1@2');
    await sign('e');
    assert.deepEqual(await signing(), ['e']);
  });

  test('stay as they are when the newest is given again', async () => {
    await sign('a');
    await set('a', 'b@1');
    await sign('a');
    assert.deepEqual(await signing(), ['a', 'b@1']);
  });

  test('have one that comes back once, as the newest', async () => {
    for (const key of ['a', 'b', 'a']) await sign(key);
    assert.deepEqual(
      (await signing())?.map((entry) => entry.split('@')[0]),
      ['a', 'b'],
    );
  });

  test('are four at most', async () => {
    for (const key of ['a', 'b', 'c', 'd', 'e']) await sign(key);
    assert.deepEqual(
      (await signing())?.map((entry) => entry.split('@')[0]),
      ['e', 'd', 'c', 'b'],
    );
  });
});
