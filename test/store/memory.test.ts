import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { fullest, memoryIn, readMemory } from '../../src/store/memory.ts';

const MB = 1_000_000;
const redis = new TestStore({ maxmemory: '50mb' });

beforeEach(() => redis.flush());

const marksOf = (maxmemory: number, redisMaxBytes: number, redisMinFreeBytes: number) => {
  const info = `# Memory\r\nused_memory:7\r\nmaxmemory:${maxmemory}\r\nmaxmemory_human:0B\r\n`;
  const { max, highMark, lowMark } = memoryIn(info, { redisMaxBytes, redisMinFreeBytes });
  return { max, highMark, lowMark };
};

test('the marks keep one and two times the configured free memory', () => {
  assert.deepEqual(marksOf(0, 100 * MB, 10 * MB), { max: 100 * MB, highMark: 90 * MB, lowMark: 80 * MB });
});

test('the smaller of the configured limit and the server’s applies', () => {
  assert.equal(marksOf(60 * MB, 100 * MB, 0).max, 60 * MB);
  assert.equal(marksOf(100 * MB, 60 * MB, 0).max, 60 * MB);
  assert.equal(marksOf(60 * MB, 0, 0).max, 60 * MB);
});

test('if that were more than half of the memory, the marks keep a tenth and a fifth', () => {
  assert.deepEqual(marksOf(20 * MB, 0, 10 * MB), { max: 20 * MB, highMark: 18 * MB, lowMark: 16 * MB });
  assert.deepEqual(marksOf(40 * MB, 0, 10 * MB), { max: 40 * MB, highMark: 36 * MB, lowMark: 32 * MB });
  assert.deepEqual(marksOf(5 * MB, 0, 10 * MB), { max: 5 * MB, highMark: 4.5 * MB, lowMark: 4 * MB });
});

test('without a limit no event is ever dropped', () => {
  const none = Number.POSITIVE_INFINITY;
  assert.deepEqual(marksOf(0, 0, 10 * MB), { max: 0, highMark: none, lowMark: none });
});

test('a host that hides its memory has no limit', () => {
  const { used, max } = memoryIn('# Memory\r\n', { redisMaxBytes: 0, redisMinFreeBytes: 0 });
  assert.deepEqual({ used, max }, { used: 0, max: 0 });
});

test('the fullest is the nearest to its high mark, and without limits the one that stores most', () => {
  const memory = (used: number, max: number) =>
    memoryIn(`used_memory:${used}\r\nmaxmemory:${max}`, { redisMaxBytes: 0, redisMinFreeBytes: 0 });
  const [small, large] = [memory(9 * MB, 10 * MB), memory(50 * MB, 100 * MB)];
  assert.deepEqual(fullest([large, small]), small);
  const [less, more] = [memory(9 * MB, 0), memory(50 * MB, 0)];
  assert.deepEqual(fullest([less, more]), more);
});

test('the fullest has the policy of any Redis that may delete data', () => {
  const memory = (used: number, policy: string) =>
    memoryIn(`used_memory:${used}\r\nmaxmemory_policy:${policy}\r\n`, {
      redisMaxBytes: 0,
      redisMinFreeBytes: 0,
    });
  const [wrong, right] = [memory(1, 'allkeys-lru'), memory(2, 'noeviction')];
  assert.deepEqual(fullest([wrong, right]), { ...right, wrongPolicy: 'allkeys-lru' });
  assert.equal(fullest([right]).wrongPolicy, undefined);
});

test('a real Redis reports its memory', async () => {
  const limits = { redisMaxBytes: 0, redisMinFreeBytes: 10 * MB };
  const before = await readMemory(redis.store, limits);
  assert.equal(before.max, 50 * 1024 * 1024);
  await redis.store.redis.set('a', 'x'.repeat(5 * MB));
  const grown = (await readMemory(redis.store, limits)).used - before.used;
  assert.ok(grown > 4.9 * MB && grown < 12 * MB, `${grown}`);
});
