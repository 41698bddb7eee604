import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { keyspace, type ProcessType } from '../../src/store/keys.ts';
import { Listener } from '../../src/store/listener.ts';
import { Partition } from '../../src/store/partition.ts';
import { countProcesses, showPresence } from '../../src/store/presence.ts';

const silent = createLog('silent', {});
const redis = new TestStore();

interface Owner {
  after: (end: () => void) => void;
}

/** Shows one process, and resolves when it counts. Returns the function that ends it. */
async function show(t: Owner, partition: Partition, type: ProcessType) {
  const before = await countProcesses(partition);
  const end = showPresence(new Listener(partition.redis), keyspace(partition.prefix), type, () => {});
  t.after(end);
  await until(async () => (await countProcesses(partition))?.[type] === (before?.[type] ?? 0) + 1);
  return end;
}

const counted = (partition: Partition, web: number, worker: number) =>
  until(async () => {
    const found = await countProcesses(partition);
    return found?.web === web && found.worker === worker;
  });

describe('processes are counted', () => {
  for (const prefix of ['shop:', 'shop:{1}:'])
    test(`under the prefix ${prefix}, by their type, while they live`, async (t) => {
      const partition = new Partition(redis.store.redis, { prefix });
      const other = new Partition(redis.store.redis, { prefix: 'another:' });
      assert.deepEqual(await countProcesses(partition), { web: 0, worker: 0 });
      const end = await show(t, partition, 'web');
      await show(t, partition, 'web');
      await show(t, partition, 'worker');
      assert.deepEqual(await countProcesses(partition), { web: 2, worker: 1 });
      assert.deepEqual(await countProcesses(other), { web: 0, worker: 0 });
      end();
      await counted(partition, 1, 1);
    });

  test('again after a restart of Redis; while Redis is away, counting fails', async (t) => {
    const own = await PrivateRedis.during(t, { port: 0 });
    const connection = connectOne(own.url, silent);
    t.after(() => connection.disconnect());
    await until(() => connection.status === 'ready');
    const partition = new Partition(connection);
    await show(t, partition, 'worker');
    await own.kill();
    await until(() => connection.status !== 'ready');
    await assert.rejects(countProcesses(partition), StorageUnavailable);
    await own.restart();
    await until(() => connection.status === 'ready');
    await counted(partition, 0, 1);
  });

  test('unless Redis refuses the command to the user', async (t) => {
    const own = await PrivateRedis.during(t, {
      port: 0,
      config: { user: 'bus on >password ~* &* +@all -pubsub' },
    });
    const connection = connectOne(own.url.replace('//', '//bus:password@'), silent);
    t.after(() => connection.disconnect());
    await until(() => connection.status === 'ready');
    assert.equal(await countProcesses(new Partition(connection)), undefined);
  });
});
