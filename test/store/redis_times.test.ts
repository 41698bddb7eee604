import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { RedisTimes } from '../../src/store/redis_times.ts';

const HOUR_MS = 3_600_000;
/** Maximum time of a round trip to Redis on a busy machine: as exact is the time, if the clock of this host is wrong. */
const ROUND_TRIP_MS = 1000;
const redis = new TestStore();

test('the time is that of this host, if Redis has the same', async () => {
  const times = new RedisTimes();
  await times.nowMs(redis.store);
  const beforeMs = Date.now();
  const nowMs = times.nowMs(redis.store) as number;
  assert.ok(beforeMs <= nowMs && nowMs <= Date.now());
});

test('where this host has another, it is that of Redis, also when the clock of the host is set', async (t) => {
  let offMs = HOUR_MS;
  t.mock.method(clock, 'wallMs', () => Date.now() + offMs);
  const times = new RedisTimes();
  for (const nextMs of [-HOUR_MS, 0, 3000]) {
    const beforeMs = Date.now();
    const nowMs = await times.nowMs(redis.store);
    assert.ok(Math.abs(nowMs - beforeMs) < ROUND_TRIP_MS, `${nowMs - beforeMs} ms later`);
    offMs = nextMs;
  }
});

async function reconnect(): Promise<void> {
  const { connections } = redis.store;
  redis.store.redis.disconnect(true);
  await until(() => redis.store.connections > connections);
}

test('Redis is asked again after a reconnection', async () => {
  const times = new RedisTimes();
  await times.nowMs(redis.store);
  assert.equal(typeof times.nowMs(redis.store), 'number');
  await reconnect();
  assert.notEqual(typeof times.nowMs(redis.store), 'number');
});

test('a slow answer, by which the time could be earlier or later, does not change it', async (t) => {
  t.mock.method(clock, 'wallMs', () => Date.now() + 500);
  const times = new RedisTimes();
  await times.nowMs(redis.store);
  await reconnect();
  await redis.store.redis.client('PAUSE', 1000);
  const differenceMs = (await times.nowMs(redis.store)) - Date.now();
  assert.ok(Math.abs(differenceMs) < 250, `${differenceMs} ms`);
});
