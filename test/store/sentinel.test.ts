import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { noOpenssl, redisTls, TestAuthority } from '../../harness/http/certificates.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { Sentinel } from '../../harness/redis/sentinel.ts';
import { SentinelTrio } from '../../harness/redis/sentinel_trio.ts';
import { until } from '../../harness/until.ts';
import { BootError, StorageUnavailable } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { Listener } from '../../src/store/listener.ts';
import { Partition } from '../../src/store/partition.ts';
import { addressOf } from '../../src/store/redis_url.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

const silent = createLog('silent', {});

describe('redis+sentinel://', () => {
  test('has sentinels, the name of the master, credentials and options', () => {
    assert.deepEqual(addressOf('redis+sentinel://one,two:1,[::1]:2/shop'), {
      sentinels: [
        { host: 'one', port: 26379 },
        { host: 'two', port: 1 },
        { host: '::1', port: 2 },
      ],
      name: 'shop',
      db: 0,
    });
    const url =
      'rediss+sentinel://bus:p%40ss:word@one:1/shop?db=3&sentinel_user=watch&sentinel_password=s%26cret';
    assert.deepEqual(addressOf(url), {
      sentinels: [{ host: 'one', port: 1 }],
      name: 'shop',
      db: 3,
      username: 'bus',
      password: 'p@ss:word',
      sentinelUsername: 'watch',
      sentinelPassword: 's&cret',
    });
    assert.equal(addressOf('redis+sentinel://:word@one/shop').password, 'word');
  });

  for (const [url, advice] of [
    ['redis+sentinel://', /needs the sentinels/],
    ['redis+sentinel:///shop', /needs the sentinels/],
    ['redis+sentinel://one:1', /needs one name behind the sentinels/],
    ['redis+sentinel://one:1/', /needs one name/],
    ['redis+sentinel://one:1/shop/3', /needs one name/],
    ['redis+sentinel://one:1,/shop', /no host:port; write/],
    ['redis+sentinel://one:x/shop', /no host:port/],
    ['redis+sentinel://one:70000/shop', /no host:port/],
    ['redis+sentinel://::1/shop', /no host:port.*\[::1\]:26379/],
    ['redis+sentinel://user:secret@@one/shop', /percent-encoded/],
    ['redis+sentinel://user:%secret@one/shop', /write %25/],
    ['redis+sentinel://user@one/shop', /a user without a password/],
    ['redis+sentinel://one/shop?db=x', /db that is not a number/],
    ['redis+sentinel://one/shop?quorum=2', /option quorum; there are db, sentinel_user, sentinel_password/],
  ] as const) {
    test(`${url} is refused, with advice and without the password`, () => {
      const right = ({ message }: Error) =>
        advice.test(message) &&
        !message.includes('secret') &&
        message.includes('redis+sentinel://user:password@');
      assert.throws(
        () => connectOne(url, silent),
        (error: Error) => error instanceof BootError && right(error),
      );
    });
  }

  const COMMANDS = '+sentinel|get-master-addr-by-name +sentinel|sentinels';
  test(`sentinels may ask for credentials, of a user with ${COMMANDS}`, async (t) => {
    const redis = await PrivateRedis.during(t, { port: 0, password: 'of-redis' });
    const watched = { name: 'shop', port: Number(new URL(redis.url).port), downAfterMs: 1000, quorum: 1 };
    const lines = ['sentinel auth-pass shop of-redis', `user watch on >of-sentinel -@all ${COMMANDS}`];
    const sentinel = await Sentinel.start({ ...watched, lines });
    t.after(() => sentinel.stop());
    const url = `redis+sentinel://:of-redis@127.0.0.1:${sentinel.port}/shop?sentinel_user=watch&sentinel_password=of-sentinel`;
    const connection = connectOne(url, silent);
    t.after(() => connection.disconnect());
    await until(() => connection.status === 'ready');
    assert.equal(await connection.ping(), 'PONG');
  });

  test('rediss+sentinel:// encrypts both connections', { skip: noOpenssl }, async (t) => {
    const authority = new TestAuthority();
    t.after(() => authority.remove());
    const [port, sentinelPort] = [await freePort(), await freePort()];
    await PrivateRedis.during(t, { config: redisTls(port, authority) });
    const lines = Object.entries({ ...redisTls(sentinelPort, authority), 'tls-replication': 'yes' });
    const watched = { name: 'shop', port, downAfterMs: 1000, quorum: 1 };
    const sentinel = await Sentinel.start({ ...watched, lines: lines.map((line) => line.join(' ')) });
    t.after(() => sentinel.stop());
    const recorded = capturedLog();
    const url = `rediss+sentinel://127.0.0.1:${sentinelPort}/shop`;
    const trusting = connectOne(url, recorded.log, { ca: authority.caText, verify: true });
    const wary = connectOne(url, recorded.log);
    t.after(() => [trusting.disconnect(), wary.disconnect()]);
    await until(() => trusting.status === 'ready');
    assert.equal(await trusting.ping(), 'PONG');
    await until(() => recorded.says(/Redis is away/));
    assert.notEqual(wary.status, 'ready');
  });

  test('the log says that all sentinels are unreachable only if they are', async (t) => {
    const redis = await PrivateRedis.during(t, { port: 0 });
    const watched = { name: 'shop', port: Number(new URL(redis.url).port), downAfterMs: 1000, quorum: 1 };
    const sentinel = await Sentinel.start(watched);
    t.after(() => sentinel.stop());
    const recorded = capturedLog();
    const store = new Partition(connectOne(`redis+sentinel://127.0.0.1:${sentinel.port}/shop`, recorded.log));
    t.after(() => store.redis.disconnect());
    for (const times of [1, 2]) {
      await until(() => store.connections === times, { what: 'it has connected' });
      await callRedis(redis.url, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    await until(() => store.connections === 3, { what: 'it has connected again' });
    assert.deepEqual(recorded.lines, []);
    await sentinel.stop();
    await callRedis(redis.url, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until(() =>
      recorded.lines.some(({ reason }) => /All sentinels are unreachable/.test(String(reason))),
    );
  });

  test('all connections follow the master, after a crash and after an orderly failover', async (t) => {
    const trio = await SentinelTrio.start({ replicas: 2 });
    t.after(() => trio.stop());
    const recorded = capturedLog();
    const store = new Partition(connectOne(trio.url, recorded.log));
    const wakeups = new Wakeups(new Listener(store.redis), store.keys);
    let announced = 0;
    wakeups.on('main', () => announced++);
    t.after(() => [wakeups.close(), store.redis.disconnect()]);
    const write = () =>
      store
        .command((redis, keys) => redis.publish(keys.wake('main'), '').then(() => redis.incr('count')))
        .catch((error) => {
          // A failover may cause no other error: callers wait until this one passes.
          if (!(error instanceof StorageUnavailable)) throw error;
          return 0;
        });
    const works = async () => {
      const [count, before] = [await until(write), announced];
      await until(async () => (await write()) > count && announced > before);
    };
    await works();
    const killed = trio.master;
    await killed.kill('SIGKILL');
    await trio.failsOver();
    await works();
    await trio.rejoins(killed);
    await trio.failOver();
    await works();
    assert.ok(!recorded.lines.some(({ level }) => Number(level) > 40));
  });
});

test('READONLY of a master that became a replica leads to a new connection, and passes', async (t) => {
  const [redis, other] = await Promise.all([
    PrivateRedis.start({ port: 0 }),
    PrivateRedis.start({ port: 0 }),
  ]);
  t.after(() => Promise.all([redis.stop(), other.stop()]));
  const recorded = capturedLog();
  const connection = connectOne(redis.url, recorded.log);
  await once(connection, 'ready');
  const store = new Partition(connection);
  t.after(() => connection.disconnect());
  await store.run('heartbeat', { leaseMs: 1, leases: [] });
  await callRedis(redis.url, 'REPLICAOF', '127.0.0.1', new URL(other.url).port);
  const before = store.connections;
  const beat = () => store.command((commands) => commands.incr('a'));
  await assert.rejects(beat(), StorageUnavailable);
  // The connection is closed now, and this reading fails with it.
  const reading = store.command((commands) => commands.get('a'));
  await assert.rejects(reading, /^StorageUnavailable: Redis refuses commands \(READONLY\)/);
  await until(() => store.connections > before, { what: 'it connects again' });
  await callRedis(redis.url, 'REPLICAOF', 'NO', 'ONE');
  await until(() => beat().catch(() => 0));
  const warnings = recorded.lines.filter(({ msg }) => /is a replica.*connecting again/.test(String(msg)));
  assert.equal(warnings.length, 1);
});
