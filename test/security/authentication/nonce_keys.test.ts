import assert from 'node:assert/strict';
import { after, before, beforeEach, mock, test } from 'node:test';
import { scriptCalls } from '../../../harness/redis/script_calls.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { until } from '../../../harness/until.ts';
import { NonceKeys } from '../../../src/authentication/nonce_keys.ts';
import { NonceUses } from '../../../src/authentication/nonce_uses.ts';
import { Nonces } from '../../../src/authentication/nonces.ts';
import { clock } from '../../../src/clock.ts';
import { StorageUnavailable } from '../../../src/errors.ts';

const HOUR_MS = 3_600_000;
const redis = new TestStore();
let aheadMs = 0;
before(() => mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs));
after(() => mock.reset());

beforeEach(async () => {
  aheadMs = 0;
  await redis.flush();
});

/** Makes the nonce keys and nonces of one process. */
async function process() {
  const keys = new NonceKeys(redis.store);
  await keys.load();
  return { keys, nonces: new Nonces(keys, new NonceUses(redis.store)) };
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

test('keys that Redis has lost are replaced: their nonces are old, even of a process that does not know it yet', async () => {
  const [one, other] = [await process(), await process()];
  const nonce = one.nonces.issue();
  await redis.flush();
  assert.equal(one.nonces.check(nonce), 'fresh');
  assert.equal(await one.nonces.consume(nonce, '00000001', 'shop'), 'replaced');
  assert.equal(one.nonces.check(nonce), 'old');
  const next = one.nonces.issue();
  assert.equal(await one.nonces.consume(next, '00000001', 'shop'), 'consumed');
  assert.equal(other.nonces.check(next), 'unknown');
  aheadMs = 100;
  await other.keys.refresh();
  assert.deepEqual([other.nonces.check(next), other.nonces.check(nonce)], ['fresh', 'old']);
});

test('keys that a Redis has kept are replaced when it has been restarted, since it may have lost nonce uses', async () => {
  const { keys, nonces } = await process();
  const nonce = nonces.issue();
  assert.equal(await nonces.consume(nonce, '00000001', 'shop'), 'consumed');
  const { redis: connection } = redis.store;
  // The data is set back as if Redis had restarted with a snapshot from before that use.
  await connection.del(...(await connection.keys('*digest:counts:*')));
  await connection.set(redis.store.keys.digest_run(), 'of another run');
  assert.equal(await nonces.consume(nonce, '00000001', 'shop'), 'replaced');
  assert.equal(nonces.check(nonce), 'old');
  assert.equal(await nonces.consume(nonces.issue(), '00000001', 'shop'), 'consumed');
  const late = await process();
  assert.equal(late.nonces.check(nonce), 'old', 'a new process recognises it');
  assert.ok(late.keys.current()?.equals(keys.current() as Buffer));
});

test('keys of an earlier release, which noted no run of Redis, stay', async () => {
  const { nonces } = await process();
  const nonce = nonces.issue();
  await redis.store.redis.del(redis.store.keys.digest_run());
  assert.equal(await nonces.consume(nonce, '00000001', 'shop'), 'consumed');
});

test('each hour has a key of its own, known before the hour begins', async () => {
  const { keys, nonces } = await process();
  const first = keys.current();
  aheadMs = HOUR_MS;
  // The process has the second key already, without asking Redis again.
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
  assert.equal(
    keys.find((hour - 30) * HOUR_MS, () => true),
    undefined,
  );
});

test('the time is that of Redis: a process whose clock is hours off issues good nonces', async () => {
  const right = await process();
  const nonceOfRight = right.nonces.issue();
  aheadMs = 5 * HOUR_MS;
  const wrong = await process();
  const nonceOfWrong = wrong.nonces.issue();
  assert.equal(wrong.nonces.check(nonceOfRight), 'fresh');
  // From here on, the other process acts again.
  aheadMs = 0;
  assert.equal(right.nonces.check(nonceOfWrong), 'fresh');
});

for (const [leap, leapMs] of [
  ['forward, as after a machine was suspended', -10 * 60_000],
  ['back', 10 * 60_000],
] as const) {
  test(`if Redis’s clock leaps ${leap}, no use is consumed by the former time, and the next nonce is good`, async () => {
    // The bus has run for more than an hour.
    const { redis: connection, keys } = redis.store;
    await connection.hset(keys.digest_keys(), { [Math.floor(Date.now() / HOUR_MS) - 1]: 'k'.repeat(32) });
    const { nonces } = await process();
    aheadMs = leapMs;
    const nonce = nonces.issue();
    assert.equal(nonces.check(nonce), 'fresh', 'the process does not know of the leap yet');
    assert.equal(await nonces.consume(nonce, '00000001', 'shop'), 'expired');
    assert.equal(nonces.check(nonce), 'old');
    const next = nonces.issue();
    assert.equal(nonces.check(next), 'fresh');
    assert.equal(await nonces.consume(next, '00000001', 'shop'), 'consumed');
  });
}

test('keys are asked for once a minute, and whoever has some goes on while Redis is away', async () => {
  const { keys, nonces } = await process();
  const calls = () => scriptCalls(redis.store);
  const before = await calls();
  for (let i = 0; i < 100; i++) nonces.issue();
  assert.equal(await calls(), before);
  aheadMs = 61_000;
  for (let i = 0; i < 100; i++) nonces.issue();
  await until(async () => (await calls()) === before + 1);

  await redis.redis.kill('SIGKILL');
  aheadMs += 61_000;
  assert.equal(nonces.check(nonces.issue()), 'fresh');
  aheadMs += 2 * HOUR_MS;
  assert.equal(keys.current(), undefined);
  await assert.rejects(nonces.prepare(), StorageUnavailable);
  await redis.redis.restart();
});
