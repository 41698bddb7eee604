import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { BootError, StorageUnavailable } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { Partition } from '../../src/store/partition.ts';
import { readScripts, standalone } from '../../src/store/script_source.ts';

const redis = new TestStore();
const prepare = (others: Partition[] = []) =>
  prepareStorage(redis.store, 30_000, createLog('silent', {}), others);
const config = (name: string, value: string) => redis.store.redis.config('SET', name, value);

/** Checks that the storage is refused with this advice, and that nothing changes. */
async function refused(advice: RegExp, others: Partition[] = []): Promise<void> {
  const before = await snapshot(redis.store);
  await assert.rejects(
    prepare(others),
    (error: unknown) => error instanceof BootError && advice.test(error.message),
  );
  assert.deepEqual(await snapshot(redis.store), before);
}

beforeEach(() => redis.flush());
afterEach(() => config('maxmemory-policy', 'noeviction'));

test('an empty Redis gets the schema, the time, and nothing else', async () => {
  await prepare();
  assert.deepEqual((await redis.store.redis.keys('*')).sort(), ['begun_at', 'schema']);
  assert.equal(await redis.store.redis.get('schema'), '2');
  const once = await snapshot(redis.store);
  await prepare();
  assert.deepEqual(await snapshot(redis.store), once);
});

test('a process that is slow to boot forgets no job that has begun since another was ready', async () => {
  await redis.store.redis.rpush('jobs:pending:aux:ruby', 'a job of the Ruby Routemaster');
  await redis.store.redis.sadd('jobs:pending:index:aux', 'ruby');
  await prepare();
  assert.deepEqual((await redis.store.redis.keys('*')).sort(), ['begun_at', 'schema']);
  const settings = { laneLimit: 1, laneLimitMax: 1, leaseMs: 30_000, deliveryLog: 1000 };
  const aux = new Queue(redis.store, 'aux', settings);
  await aux.enqueue('sweep');
  assert.equal((await aux.acquire(['w'])).grants.length, 1);
  const before = await snapshot(redis.store);
  assert.equal(await redis.store.run('adopt', { layout: 2 }), false);
  assert.deepEqual(await snapshot(redis.store), before);
});

describe('what is refused', () => {
  for (const policy of ['allkeys-lru', 'volatile-ttl', 'allkeys-random']) {
    test(`a server that would delete events: maxmemory-policy ${policy}`, async () => {
      await config('maxmemory-policy', policy);
      await refused(new RegExp(`${policy}.*noeviction`));
    });
  }

  for (const layout of ['3', 'no number'])
    test(`data of a layout that this release does not know: ${layout}`, async () => {
      await redis.store.redis.set('schema', layout);
      await refused(new RegExp(`layout ${layout}.*knows layout 2`));
    });

  test('data of a newer layout, of which another partition has applied something', async () => {
    const other = new Partition(redis.store.redis, { prefix: '{1}:', index: 1 });
    await other.redis.hset(other.keys.outboxes_applied(), String(redis.store.index), 1);
    await redis.store.redis.set('schema', '3');
    await refused(/layout 3/, [other]);
  });
});

describe('a server that resembles Redis is refused', () => {
  for (const [missing, advice] of [
    [['OBJECT'], /does not let scripts use OBJECT ENCODING: .*docs\/scale\.md/],
    [['MEMORY'], /does not let scripts use MEMORY USAGE: .*docs\/scale\.md/],
    [['FCALL', 'EVALSHA'], /cannot run the bus's scripts: .*EVALSHA.*docs\/scale\.md/],
  ] as const) {
    test(`without ${missing}`, async (t) => {
      const config = Object.fromEntries(missing.map((command) => [`rename-command ${command}`, '']));
      const server = await PrivateRedis.during(t, { config });
      const store = await openStore(server.url);
      t.after(() => store.redis.disconnect());
      await assert.rejects(
        prepareStorage(store, 30_000, createLog('silent', {})),
        (error: unknown) => error instanceof BootError && advice.test(error.message),
      );
      assert.deepEqual(await store.redis.keys('*'), []);
    });
  }
});

describe('a user who may run the commands of scripts is not refused', () => {
  test('if its keys and channels have a prefix', async (t) => {
    const user = 'bus on >password resetkeys ~shop:* resetchannels &shop:wake* +@all';
    const server = await PrivateRedis.during(t, { port: 0, config: { user } });
    const store = await openStore(server.url.replace('//', '//bus:password@'), 'shop:');
    t.after(() => store.redis.disconnect());
    for (let i = 0; i < 50; i++) {
      assert.equal((await store.run('try_commands', {})).command, undefined);
      await store.redis.exists(`shop:${'x'.repeat(i)}`, `shop:${i}`);
    }
  });

  test('if the server cannot judge commands', async () => {
    const script = readScripts().find(({ name }) => name === 'try_commands') ?? assert.fail();
    const [, ...lines] = standalone(script).split('\n');
    const without = 'local redis = setmetatable({ acl_check_cmd = false }, { __index = redis })';
    const text = ['#!lua flags=allow-oom', without, ...lines].join('\n');
    assert.deepEqual(await redis.store.redis.call('EVAL', text, 1, 'absent'), [null, null]);
  });

  // As in Redis 8.8: https://github.com/redis/redis/pull/14847
  test('if the server judges no command with a wrong number of arguments', async () => {
    const script = readScripts().find(({ name }) => name === 'try_commands') ?? assert.fail();
    const commands = (await redis.store.redis.call('COMMAND')) as [name: string, arity: number][];
    const arities = commands.map(([name, arity]) => `['${name.toUpperCase()}'] = ${arity}`);
    const strict = `local real, arities = redis, { ${arities.join(', ')} }
      local function check(name, ...)
        local arity, count = arities[name], select('#', ...) + 1
        if count < math.abs(arity) or arity > 0 and count > arity then error('wrong number of arguments') end
        return real.acl_check_cmd(name, ...)
      end
      local redis = setmetatable({ acl_check_cmd = check }, { __index = real })`;
    const [, ...lines] = standalone(script).split('\n');
    const text = ['#!lua flags=allow-oom', strict, ...lines].join('\n');
    assert.deepEqual(await redis.store.redis.call('EVAL', text, 1, 'absent'), [null, null]);
  });
});

test('while Redis loads or is away, waiting may help', async () => {
  await redis.redis.kill();
  await assert.rejects(prepare(), StorageUnavailable);
  await redis.redis.restart();
  const errors: unknown[] = [];
  await until(() =>
    prepare().then(
      () => true,
      (error: unknown) => void errors.push(error),
    ),
  );
  assert.ok(errors.every((error) => error instanceof StorageUnavailable));
  assert.equal(await redis.store.redis.get('schema'), '2');
});
