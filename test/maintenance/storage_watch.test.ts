import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { StorageWatch } from '../../src/maintenance/storage_watch.ts';

const redis = new TestStore();
const policyIs = (policy: string) => redis.store.redis.config('SET', 'maxmemory-policy', policy);
const boot = () => prepareStorage(redis.store, 30_000, createLog('silent', {}));

beforeEach(() => redis.flush());
afterEach(() => policyIs('noeviction'));

function watching() {
  const { log, lines } = capturedLog();
  const watch = new StorageWatch(redis.store, log);
  /** Looks twice, and returns what is logged. */
  const look = async () => {
    lines.length = 0;
    await watch.look();
    await watch.look();
    return lines.map(({ level, msg }) => [level, msg]);
  };
  return look;
}

test('a Redis as it was at the start is no matter', async () => {
  await boot();
  assert.deepEqual(await watching()(), []);
});

test('a Redis that would delete events from now on is an error, once each time', async () => {
  await boot();
  const look = watching();
  for (const policy of ['allkeys-lru', 'volatile-ttl']) {
    await policyIs(policy);
    const [[level, msg] = [], ...more] = await look();
    assert.deepEqual([level, more], [50, []]);
    assert.match(String(msg), new RegExp(`maxmemory-policy ${policy}.*noeviction`));
  }
  await policyIs('noeviction');
  assert.deepEqual(await look(), []);
  await policyIs('volatile-ttl');
  assert.equal((await look()).length, 1);
});

test('a Redis that came back empty is an error, once, until a process starts', async () => {
  await boot();
  const look = watching();
  await redis.flush();
  const [[level, msg] = [], ...more] = await look();
  assert.deepEqual([level, more], [50, []]);
  assert.match(String(msg), /lost the data of the bus.*restore a backup/);
  await boot();
  assert.deepEqual(await look(), []);
});
