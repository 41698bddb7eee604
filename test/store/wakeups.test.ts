import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { Redis } from 'ioredis';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { until } from '../../harness/until.ts';
import type { Log } from '../../src/log.ts';
import type { Wake } from '../../src/store/keys.ts';
import { keyspace } from '../../src/store/keys.ts';
import { Listener } from '../../src/store/listener.ts';
import { Partition } from '../../src/store/partition.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let listener: Listener;
let wakeups: Wakeups;
let heard: Wake[];

function listen(prefix = ''): void {
  heard = [];
  wakeups = new Wakeups(listener, keyspace(prefix));
  for (const wake of ['main', 'aux', 'due'] as const) wakeups.on(wake, () => heard.push(wake));
}

/** Listens over another connection, and no longer over that of `redis`. */
function listenOver(connection: Redis, log?: Log): void {
  listen();
  wakeups.close();
  listener = new Listener(connection, log);
  listen();
}

beforeEach(async () => {
  await redis.flush();
  listener = new Listener(redis.store.redis);
});
afterEach(() => wakeups.close());

test('all kinds count as announced once it listens, since it may have missed earlier announcements', async () => {
  listen();
  await until(() => heard.length === 3);
  assert.deepEqual(heard.sort(), ['aux', 'due', 'main']);
});

test('several partitions share a connection, also one that was ready before; the last to close ends it', async () => {
  const listeners = async () =>
    String(await redis.store.redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).match(/^id=/gm)?.length ?? 0;
  listen();
  await until(() => heard.length === 3);
  const first = wakeups;
  listen('{1}:');
  await until(() => heard.length === 3);
  assert.equal(await listeners(), 1);
  first.close();
  heard = [];
  const store = new Partition(redis.store.redis, { prefix: '{1}:' });
  await new Bus(() => store).enqueue('scrub');
  await until(() => heard.includes('aux'));
  wakeups.close();
  await until(async () => (await listeners()) === 0);
});

test('announcements of a partition with a hash tag are those of its shard', async () => {
  listen('{1}:');
  await until(() => heard.length === 3);
  heard = [];
  assert.equal(await redis.store.redis.publish('{1}:wake:aux', ''), 0);
  assert.equal(await redis.store.redis.spublish('{1}:wake:aux', ''), 1);
  await until(() => heard.length > 0);
  assert.deepEqual(heard, ['aux']);
});

test('a listener gets its own kinds of announcements only', async () => {
  listen();
  await until(() => heard.length === 3);
  heard = [];
  await bus.enqueue('scrub');
  await until(() => heard.length > 0);
  await bus.subscribe('alice', { timeout: 9000 });
  await bus.publish('a', 'widgets', ['e']);
  await until(() => heard.length > 1);
  assert.deepEqual(heard, ['aux', 'due']);
});

test('no announcement is lost after all kinds count as announced', async () => {
  for (let i = 0; i < 20; i++) {
    listen();
    let published = false;
    wakeups.on('due', () => {
      // At this very moment a job is announced over another connection.
      if (!published) redis.store.redis.publish('wake:aux', '').catch(() => {});
      published = true;
    });
    await until(() => heard.filter((wake) => wake === 'aux').length === 2);
    wakeups.close();
    listener = new Listener(redis.store.redis);
  }
  listen();
});

test('after a cut it listens again, and all kinds count as announced', async () => {
  listen();
  await until(() => heard.length === 3);
  heard = [];
  await redis.store.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  await until(() => heard.length >= 3);
  assert.deepEqual([...new Set(heard)].sort(), ['aux', 'due', 'main']);
  heard = [];
  await bus.enqueue('scrub');
  await until(() => heard.includes('aux'));
});

test('however long Redis is away, it tries soon again, since it misses announcements until then', async (t) => {
  const own = await PrivateRedis.during(t, { port: 0 });
  const store = await openStore(own.url);
  t.after(() => store.redis.disconnect());
  const connect = t.mock.method(store.redis, 'duplicate');
  listenOver(store.redis);
  await until(() => heard.length === 3);
  const before = connect.mock.callCount();
  await own.kill();
  await until(() => connect.mock.callCount() >= before + 30, { timeoutMs: 10_000 });
});

test('while the ACL forbids the channels, it warns once and tries calmly; once permitted, it listens', async (t) => {
  const { url } = redis.redis;
  const user = (...rules: string[]) => callRedis(url, 'ACL', 'SETUSER', 'deaf', ...rules);
  await user('on', '>secret', '~*', '+@all', 'resetchannels');
  t.after(() => callRedis(url, 'ACL', 'DELUSER', 'deaf'));
  const own = redis.store.redis.duplicate({ username: 'deaf', password: 'secret' });
  t.after(() => own.disconnect());
  const connect = t.mock.method(own, 'duplicate');
  const refused = async () => /^count,(\d+)/.exec(String(await callRedis(url, 'ACL', 'LOG', '1')))?.[1];
  const { log, lines } = capturedLog();
  const beganAtMs = performance.now();
  listenOver(own, log);
  const [connection] = await until(() => connect.mock.calls.map(({ result }) => result));
  await until(async () => Number(await refused()) >= 7);
  assert.ok(performance.now() - beganAtMs > 1500, 'its waits grow');
  assert.ok(connection && connection.listenerCount('end') <= 2, `${connection?.listenerCount('end')}`);
  assert.equal(connect.mock.callCount(), 1);
  assert.deepEqual(
    lines.map(({ level, msg }) => [level, String(msg).replace(/^.*grant/, 'grant')]),
    [[40, 'grant the user of Redis +subscribe and its channels, as the ACL in docs/operating.md does']],
  );
  await user('&*');
  await until(() => heard.length === 3);
});
