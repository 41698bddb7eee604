import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { StorageUnavailable } from '../../src/errors.ts';
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
  const watch = new StorageWatch([redis.store], log);
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

test('a guard refuses as soon as one of its connections finds Redis empty', async (t) => {
  await boot();
  const stores = await Promise.all([openStore(redis.redis.url), openStore(redis.redis.url)]);
  for (const store of stores) t.after(() => store.redis.disconnect());
  const [away, back] = stores;
  const guard = new StorageWatch(stores, capturedLog().log);
  await guard.check();
  await redis.flush();
  away.redis.disconnect();
  back.redis.disconnect(true);
  await until(() => back.connections > 0);
  await assert.rejects(async () => guard.check(), /lost the data of the bus/);
  await boot();
  await guard.check();
});

test('a guard looks again if Redis was connected again while it looked', async (t) => {
  await boot();
  const store = await openStore(redis.redis.url);
  t.after(() => store.redis.disconnect());
  const guard = new StorageWatch([store], capturedLog().log);
  const connectAgain = async (count: number) => {
    store.redis.disconnect(true);
    await until(() => store.connections === count);
  };
  await connectAgain(1);
  const late = Promise.withResolvers<never>();
  store.command = () => late.promise;
  // Handles its rejection at once: it may come while the test waits for the connection below.
  const looked = Promise.allSettled([guard.check()]);
  delete (store as Partial<typeof store>).command;
  await redis.flush();
  await connectAgain(2);
  const meanwhile = guard.check();
  late.resolve(1 as never);
  await Promise.allSettled([looked, meanwhile]);
  for (const check of [() => meanwhile, () => guard.check()])
    await assert.rejects(async () => check(), /lost the data of the bus/);
});

test('a guard notices within a second that Redis was emptied without a new connection', async () => {
  await boot();
  const guard = new StorageWatch([redis.store], capturedLog().log);
  await guard.check();
  await redis.flush();
  await until(async () => {
    const refusal = await Promise.resolve(guard.check()).catch((error: Error) => error);
    return refusal instanceof StorageUnavailable;
  });
  await boot();
  await guard.check();
  assert.equal(guard.check(), undefined);
});

test('a guard refuses if Redis comes back empty during a look that no request waits for', async (t) => {
  await boot();
  const store = await openStore(redis.redis.url);
  t.after(() => store.redis.disconnect());
  let connections = 1;
  Object.defineProperty(store, 'connections', { get: () => connections });
  const guard = new StorageWatch([store], capturedLog().log);
  await guard.check();
  let hasBegun = false;
  store.command = () => {
    hasBegun = true;
    return new Promise(() => {});
  };
  await until(() => {
    assert.equal(guard.check(), undefined);
    return hasBegun;
  });
  delete (store as Partial<typeof store>).command;
  await redis.flush();
  connections++;
  await assert.rejects(async () => guard.check(), /lost the data of the bus/);
});

test('a guard notices within a second that one Redis was emptied while another one hangs', async (t) => {
  const other = await PrivateRedis.during(t);
  const hanging = await openStore(other.url);
  t.after(() => hanging.redis.disconnect());
  await prepareStorage(hanging, 30_000, createLog('silent', {}));
  await boot();
  const guard = new StorageWatch([redis.store, hanging], capturedLog().log);
  await guard.check();
  process.kill(other.pid, 'SIGSTOP');
  await redis.flush();
  const flushedAtMs = clock.monotonicMs();
  await until(async () => {
    const refusal = await Promise.resolve(guard.check()).catch((error: Error) => error);
    return refusal instanceof StorageUnavailable;
  });
  assert.ok(clock.monotonicMs() - flushedAtMs < 2500);
  await boot();
  await guard.check();
});
