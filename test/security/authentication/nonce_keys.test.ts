import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { scriptCalls } from '../../../harness/redis/script_calls.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { until } from '../../../harness/until.ts';
import { NonceKeys } from '../../../src/authentication/nonce_keys.ts';
import { Nonces } from '../../../src/authentication/nonces.ts';
import { StorageUnavailable } from '../../../src/errors.ts';

const HOUR_MS = 3_600_000;
const redis = new TestStore();
const counts = { consume: () => assert.fail('no count was used') };

beforeEach(() => redis.flush());

/** The keys as one process has them, and what it makes of them; with a clock that the test moves. */
async function process() {
  const clock = { aheadMs: 0 };
  const keys = new NonceKeys(redis.store, () => performance.now() + clock.aheadMs);
  await keys.load();
  return { clock, keys, nonces: new Nonces(keys, counts) };
}

test('processes that share a Redis share the keys, which are random and not the root key', async () => {
  const [one, other] = await Promise.all([process(), process()]);
  const nonce = one.nonces.issue();
  assert.equal(other.nonces.check(nonce), 'fresh');
  const stored = await redis.store.redis.hvalsBuffer('digest:keys');
  assert.equal(stored.length, 2);
  for (const key of stored) assert.equal(key.length, 32);
  await redis.flush();
  const stranger = await process();
  assert.equal(stranger.nonces.check(nonce), 'unknown');
});

test('keys that Redis has lost come back with the next process that asks, and nonces stay good', async () => {
  const { clock, keys, nonces } = await process();
  const nonce = nonces.issue();
  await redis.flush();
  clock.aheadMs = 61_000;
  await keys.load();
  assert.equal(nonces.check(nonce), 'fresh');
  assert.equal((await process()).nonces.check(nonce), 'fresh');
});

test('keys that Redis has lost come back whatever the hour, by a process that is an hour ahead too', async () => {
  const { clock, keys, nonces } = await process();
  const nonce = nonces.issue();
  await redis.flush();
  clock.aheadMs = HOUR_MS;
  await keys.load();
  assert.equal((await process()).nonces.check(nonce), 'fresh');
});

test('each hour has a key of its own, known before the hour begins', async () => {
  const { clock, keys, nonces } = await process();
  const first = keys.current();
  clock.aheadMs = HOUR_MS;
  // Before Redis was asked again: the process has it already.
  const second = keys.current();
  assert.ok(first && second && !first.equals(second));
  assert.match(nonces.issue(), /^[\w-]{40}$/);
});

test('keys of more than a day ago are forgotten, everywhere', async () => {
  const { redis: connection } = redis.store;
  const hour = Math.floor(Date.now() / HOUR_MS);
  await connection.hset('digest:keys', { [hour - 30]: 'old', [hour - 24]: 'kept' });
  await process();
  const hours = (await connection.hkeys('digest:keys')).map(Number).sort((a, b) => a - b);
  assert.deepEqual(hours, [hour - 24, hour, hour + 1]);
  const { keys } = await process();
  assert.equal(keys.of((hour - 30) * HOUR_MS), undefined);
});

test('the time is that of Redis: a process whose clock is hours off issues good nonces', async () => {
  const right = await process();
  const keys = new NonceKeys(redis.store, () => performance.now() + 5 * HOUR_MS);
  await keys.load();
  const nonces = new Nonces(keys, counts);
  assert.equal(right.nonces.check(nonces.issue()), 'fresh');
  assert.equal(nonces.check(right.nonces.issue()), 'fresh');
});

test('keys are asked for once a minute, and whoever has some goes on while Redis is away', async () => {
  const { clock, keys, nonces } = await process();
  const calls = () => scriptCalls(redis.store);
  const before = await calls();
  for (let i = 0; i < 100; i++) nonces.issue();
  assert.equal(await calls(), before);
  clock.aheadMs = 61_000;
  for (let i = 0; i < 100; i++) nonces.issue();
  await until(async () => (await calls()) === before + 1);

  await redis.redis.kill('SIGKILL');
  clock.aheadMs += 61_000;
  assert.equal(nonces.check(nonces.issue()), 'fresh');
  clock.aheadMs += 2 * HOUR_MS;
  assert.equal(keys.current(), undefined);
  assert.equal(nonces.ready, false);
  await assert.rejects(nonces.prepare(), StorageUnavailable);
  await redis.redis.restart();
});
