import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { sumOf } from '../../src/sum.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const OVERHEAD_BYTES = 400;

beforeEach(() => redis.flush());

const held = async (token: string, samples?: number) => {
  const [found] = await redis.store.run('holdings', { tokens: [token], samples });
  assert.ok(found);
  return found;
};

/** Measures all lists of this kind and all histories, as `holdings` does if it may measure enough of them. */
async function measured(kind: 'batch' | 'dead_letter'): Promise<number> {
  const { redis: commands, keys } = redis.store;
  const sizesOf = async (kind: 'batch' | 'dead_letter' | 'attempts') => {
    const found = await commands.keys(keys[kind]('?'.repeat(20)));
    return Promise.all(found.map(async (key) => Number(await commands.memory('USAGE', key))));
  };
  const [sizes, histories] = [await sizesOf(kind), await sizesOf('attempts')];
  return sumOf(sizes) + sizes.length * OVERHEAD_BYTES + sumOf(histories);
}

test('a queue takes what its batches take, and what they take as dead letters is told apart', async () => {
  await bus.subscribe('a', { max: 2, timeout: 0 });
  await bus.subscribe('b', { topics: ['gadgets'], timeout: 0 });
  await bus.publish('a', 'widgets', ['e1', 'e2', 'x'.repeat(5000), 'e4', 'e5']);
  const before = await held('a');
  assert.deepEqual(before, {
    batches: 3,
    bytes: await measured('batch'),
    deadLetters: 0,
    deadLetterBytes: 0,
  });
  assert.ok(before.bytes > 5000);
  await buryAll(redis.store);
  const after = await held('a');
  assert.deepEqual([after.batches, after.bytes, after.deadLetters], [0, 0, 3]);
  assert.equal(after.deadLetterBytes, await measured('dead_letter'));
  assert.equal(await bus.purge('', 'a1', 'a2', 'a3'), 3);
  const nothing = { batches: 0, bytes: 0, deadLetters: 0, deadLetterBytes: 0 };
  assert.deepEqual([await held('a'), await held('b')], [nothing, nothing]);
});

test('a few batches, spread over the queue, stand for all: the figure is near, and does not change by itself', async () => {
  await bus.subscribe('a', { max: 10, timeout: 0 });
  // The older half of the queue has short events, and the newer one long events.
  for (let n = 0; n < 10; n++)
    await bus.publish(`${n}`, 'widgets', Array<string>(100).fill('e'.repeat(n < 5 ? 100 : 1000)));
  const [all, few, again] = [await held('a', 1000), await held('a'), await held('a')];
  assert.equal(all.batches, 100);
  assert.equal(all.bytes, await measured('batch'));
  assert.deepEqual(few, again);
  assert.ok(few.bytes > 0.7 * all.bytes && few.bytes < 1.3 * all.bytes, `${few.bytes} of ${all.bytes}`);
});

test('the failed attempts at batches and dead letters count too', async () => {
  const { redis: commands, keys } = redis.store;
  await bus.subscribe('a', { max: 1, timeout: 0 });
  await bus.publish('a', 'widgets', Array<string>(20).fill('e'));
  const { bytes } = await held('a');
  for (const bid of await commands.zrange(keys.batches_queued('a'), '0', '-1'))
    await commands.rpush(keys.attempts(String(bid)), ...Array<string>(20).fill('a'.repeat(700)));
  const inFull = (isDead: boolean) =>
    redis.store.run('measure', { token: 'a', isDead, from: 0, maxBytes: 1e9 });
  const more = 20 * 20 * 700;
  assert.ok((await held('a')).bytes > bytes + more);
  assert.ok((await inFull(false)).bytes > bytes + more);
  await buryAll(redis.store);
  assert.ok((await held('a')).deadLetterBytes > bytes + more);
  assert.ok((await inFull(true)).bytes > bytes + more);
});

test('in full, batches are measured some at a time, and each once', async () => {
  await bus.subscribe('a', { max: 2, timeout: 0 });
  for (let n = 0; n < 5; n++) await bus.publish(`${n}`, 'widgets', Array<string>(100).fill('e'.repeat(500)));
  const maxBytes = 1e9;
  const all = async (isDead: boolean) => {
    const parts: { measured: number; bytes: number }[] = [];
    for (let from = 0; parts.at(-1)?.measured !== 0; from += parts.at(-1)?.measured ?? 0)
      parts.push(await redis.store.run('measure', { token: 'a', isDead, from, maxBytes }));
    return { parts: parts.map((part) => part.measured), bytes: sumOf(parts.map((part) => part.bytes)) };
  };
  assert.deepEqual(await all(false), { parts: [200, 50, 0], bytes: await measured('batch') });
  const upTo = async (maxBytes: number) =>
    (await redis.store.run('measure', { token: 'a', isDead: false, from: 0, maxBytes })).measured;
  assert.deepEqual([await upTo(0), await upTo(1), await upTo(5000)], [0, 1, 3]);
  await buryAll(redis.store);
  assert.deepEqual(await all(false), { parts: [0], bytes: 0 });
  assert.deepEqual(await all(true), { parts: [200, 50, 0], bytes: await measured('dead_letter') });
  await bus.subscribe('b', { topics: ['gadgets'], timeout: 0 });
  await bus.publish('b', 'gadgets', ['e']);
  const ofAll = async (isDead: boolean, from: number) =>
    (await redis.store.run('measure', { token: undefined, isDead, from, maxBytes })).measured;
  assert.deepEqual([await ofAll(false, 0), await ofAll(true, 200)], [1, 50], 'without a token, of all');
});

test('keys that another program has written count as nothing, and hide nobody else', async () => {
  const { store } = redis;
  for (const token of ['a', 'b']) await bus.subscribe(token, { topics: [token], timeout: 0 });
  for (const token of ['a', 'b']) await bus.publish(token, token, ['e1']);
  await store.redis.del(store.keys.batches_queued('a'));
  await store.redis.set(store.keys.batches_queued('a'), 'x');
  const [wrong, right] = await store.run('holdings', { tokens: ['a', 'b'] });
  assert.deepEqual([wrong?.bytes, right?.batches], [0, 1]);
  const exactly = await store.run('measure', { token: 'a', isDead: false, from: 0, maxBytes: 1 });
  assert.deepEqual(exactly, { measured: 0, bytes: 0 });
  const [bid] = await store.redis.zrange(store.keys.batches_queued('b'), '0', '-1');
  await store.redis.set(store.keys.batch(String(bid)), 'x'.repeat(9000));
  assert.deepEqual([(await held('b')).batches, (await held('b')).bytes], [1, OVERHEAD_BYTES]);
});
