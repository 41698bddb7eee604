import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { healthApi } from '../../src/metrics/health_api.ts';
import type { Call } from '../../src/routing/route.ts';
import { infoField } from '../../src/store/memory.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();

/** Calls `GET /pulse`, and resolves with the status of the answer. */
async function pulse(partitions: Partitions): Promise<number | undefined> {
  const routes = healthApi({ partitions, config: { scalingThreshold: 1 }, dueDeliveries: async () => 0 });
  return (await routes.find(({ path }) => path === '/pulse')?.handle({} as Call))?.status;
}

test('a pulse asks a Redis once, however many partitions it has', async () => {
  const { redis: connection } = redis.store;
  const partitions = Partitions.on(connection, { partitions: 16 });
  await partitions.control.prepare();
  assert.equal(await pulse(partitions), 204);
  assert.match(infoField(await connection.info('commandstats'), 'cmdstat_fcall') ?? '', /^calls=1,/);
});

test('a pulse is well while memory is full, even if Redis has lost the functions', async (t) => {
  const { redis: connection } = redis.store;
  t.after(() => connection.config('SET', 'maxmemory', 0));
  await connection.config('SET', 'maxmemory', 1);
  await connection.call('FUNCTION', 'FLUSH');
  assert.equal(await pulse(new Partitions(redis.store)), 204);
});
