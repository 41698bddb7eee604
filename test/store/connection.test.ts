import assert from 'node:assert/strict';
import dns, { type LookupOptions } from 'node:dns';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { aroundTests } from '../../harness/around_tests.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { BootError, StorageUnavailable } from '../../src/errors.ts';
import { createLog, failureOf } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { Partition } from '../../src/store/partition.ts';

const silent = createLog('silent', {});

describe('ROUTEMASTER_REDIS_URL', () => {
  for (const [url, advice] of [
    ['localhost:6379', /localhost:.*redis:/],
    ['not a url', /not a URL: write redis:\/\/host:6379/],
    ['http://localhost', /http:.*redis:, rediss: or unix:/],
    ['', /not a URL/],
    ['redis:localhost', /needs `\/\/`/],
    ['redis://localhost/one', /database that is not a number/],
    ['redis://localhost/?db=one', /database that is not a number/],
    ['redis://bus:12/34@localhost', /percent-encoded/],
    ['rediss://bus:12?34@localhost:6379', /percent-encoded/],
    ['redis://:12#34@localhost', /percent-encoded/],
    ['redis://bus:p@ss/word@localhost', /percent-encoded/],
    ['redis://:a%zz@localhost', /write %25 for %/],
    ['unix:///redis.sock?db=1', /besides the path of a socket/],
    ['unix://user:secret@host/redis.sock', /besides the path of a socket/],
    ['unix://user:secret@/redis.sock', /besides the path of a socket/],
    ['unix://user:secret@', /besides the path of a socket/],
    ['unix:///100%', /write %25 for %/],
  ] as const) {
    test(`${url || '(empty)'} is refused, with advice`, () => {
      assert.throws(
        () => connectOne(url, silent),
        (error: Error) => error instanceof BootError && advice.test(error.message),
      );
    });
  }

  test('is refused without its password, also in the cause of the error', () => {
    assert.throws(
      () => connectOne('redis://bus:secret@localhost:no-port', silent),
      (error: Error) => error instanceof BootError && !inspect(error).includes('secret'),
    );
  });

  test('may be a port with a password and a database', async () => {
    const redis = await PrivateRedis.start({ port: 0, password: 'secret' });
    const store = await openStore(`${redis.url}/3`);
    await store.redis.set('a', 'b');
    assert.match((await store.redis.client('INFO')) as string, / db=3 /);
    store.redis.disconnect();
    await redis.stop();
  });

  test('with a database that Redis refuses never leads to database 0', async (t) => {
    const redis = await PrivateRedis.start({ port: 0, password: 'secret' });
    const { log, lines } = capturedLog();
    const connection = connectOne(`${redis.url}/99`, log);
    t.after(async () => {
      connection.disconnect();
      await redis.stop();
    });
    let attempts = 0;
    let ready = 0;
    connection.on('connecting', () => attempts++).on('ready', () => ready++);
    await until(() => attempts > 2 || ready > 0);
    assert.equal(ready, 0);
    const reasons = lines.map(({ msg, reason }) => `${msg}: ${reason}`);
    assert.deepEqual(reasons, ['Redis is away; trying again: ERR DB index is out of range']);
  });
});

describe('while Redis is away', () => {
  let redis: PrivateRedis;
  let store: Partition;
  const recorded = capturedLog();

  aroundTests(
    async () => {
      redis = await PrivateRedis.start();
      const connection = connectOne(redis.url, recorded.log);
      store = new Partition(connection);
      await until(() => connection.status === 'ready');
    },
    async () => {
      store.redis.disconnect();
      await redis.stop();
    },
  );
  const ping = () => store.command((commands) => commands.ping());

  test('a command under way fails when the connection is cut, and is not sent again', async () => {
    await store.redis.call('CLIENT', 'PAUSE', '60000', 'WRITE');
    const failed = assert.rejects(
      store.command((commands) => commands.incr('a')),
      StorageUnavailable,
    );
    await redis.kill();
    await failed;
  });

  test('commands and scripts fail at once', async () => {
    const startMs = performance.now();
    await assert.rejects(ping(), StorageUnavailable);
    await assert.rejects(store.run('heartbeat', { leaseMs: 1, leases: [] }), StorageUnavailable);
    assert.ok(performance.now() - startMs < 4500, 'sooner than a Redis that is silent');
  });

  test('the log says so once', async () => {
    let attempts = 0;
    store.redis.on('connecting', () => attempts++);
    await until(() => attempts > 1);
    const lines = recorded.lines.filter(({ msg }) => msg === 'Redis is away; trying again');
    assert.equal(lines.length, 1);
  });

  test('it connects again by itself and logs that, and scripts work on a Redis without them', async () => {
    await redis.restart();
    await until(ping);
    assert.ok(recorded.says(/Redis is back/));
    await store.run('heartbeat', { leaseMs: 1, leases: [] });
    assert.equal(await store.redis.get('a'), null);
  });
});

test('the log says if Redis comes back with another password, and goes on when it takes the old one', async (t) => {
  const redis = await PrivateRedis.during(t, { port: 0, password: 'secret' });
  const { log, lines } = capturedLog();
  const connection = connectOne(redis.url, log);
  const partition = new Partition(connection);
  t.after(() => connection.disconnect());
  await until(() => connection.status === 'ready');
  const administrator = await openStore(redis.url);
  t.after(() => administrator.redis.disconnect());
  await administrator.redis.acl('SETUSER', 'default', 'resetpass', '>other');
  connection.disconnect(true);
  // The log of a process leaves out all but one a minute.
  await until(() => lines.length > 1);
  for (const { level, away, reason, msg } of lines) {
    assert.deepEqual([level, away], [50, 'Redis']);
    assert.equal(msg, 'Redis refuses the user or password of ROUTEMASTER_REDIS_URL; trying again');
    assert.match(String(reason), /^WRONGPASS /);
  }
  const failure = await partition
    .command((redis) => redis.ping())
    .then(() => assert.fail('the call succeeded'), failureOf);
  assert.equal(
    failure.reason,
    'Redis refuses the user or password (WRONGPASS): invalid username-password pair or user is disabled.',
  );
  assert.equal(failure.away, 'Redis');
  await administrator.redis.acl('SETUSER', 'default', '>secret');
  await until(() => connection.status === 'ready');
  assert.equal(lines.at(-1)?.msg, 'Redis is back');
});

test('an error that tells of a refused password does not contain it', async (t) => {
  const redis = await PrivateRedis.during(t, { port: 0, config: { user: 'bus on >secret ~* &* +@all' } });
  const { log, says } = capturedLog();
  const partition = new Partition(connectOne(redis.url.replace('//', '//bus:mistyped@'), log));
  t.after(() => partition.redis.disconnect());
  await until(() => says(/refuses the user/));
  await assert.rejects(
    partition.command((commands) => commands.ping()),
    (error) => {
      const shown = inspect(error, { depth: Number.POSITIVE_INFINITY });
      assert.match(shown, /WRONGPASS/);
      assert.doesNotMatch(shown, /mistyped/);
      return true;
    },
  );
});

test('a Redis that went away after it had refused the password is away', async (t) => {
  const redis = await PrivateRedis.during(t, { port: 0, config: { user: 'bus on >secret ~* &* +@all' } });
  const { log, says } = capturedLog();
  const partition = new Partition(connectOne(redis.url.replace('//', '//bus:wrong@'), log));
  t.after(() => partition.redis.disconnect());
  await until(() => says(/refuses the user/));
  await redis.kill();
  await until(() => says(/Redis is away/));
  await assert.rejects(
    partition.command((commands) => commands.ping()),
    /^StorageUnavailable: Redis is away/,
  );
});

test('the log names each address of a Redis that is away', async (t) => {
  const addresses = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  const lookup = (_name: string, _options: LookupOptions, callback: (...found: unknown[]) => void) =>
    callback(null, addresses);
  t.mock.method(dns, 'lookup', lookup);
  const { log, lines } = capturedLog();
  const connection = connectOne(`redis://redis.example:${await freePort()}`, log);
  t.after(() => connection.disconnect());
  await until(() => lines.length > 0);
  assert.match(String(lines[0]?.reason), /^connect ECONNREFUSED 127.0.0.1:\d+; connect E[A-Z]+ ::1:\d+/);
});

test('calls to a Redis that accepts connections and never answers fail within seconds', async () => {
  const redis = await PrivateRedis.start();
  const store = await openStore(redis.url);
  await redis.kill('SIGSTOP');
  const startMs = performance.now();
  await assert.rejects(
    store.command((commands) => commands.ping()),
    StorageUnavailable,
  );
  const ms = performance.now() - startMs;
  assert.ok(ms > 4000 && ms < 9500, `${ms}`);
  store.redis.disconnect();
  await redis.stop();
});

test('a process survives a first connection that is refused', async () => {
  const port = await freePort();
  const recorded = capturedLog();
  const store = new Partition(connectOne(`redis://127.0.0.1:${port}`, recorded.log));
  await until(() => recorded.says(/Redis is away/));
  await assert.rejects(
    store.command((commands) => commands.ping()),
    StorageUnavailable,
  );
  const redis = await PrivateRedis.start({ port });
  await until(() => store.command((commands) => commands.ping()));
  store.redis.disconnect();
  await redis.stop();
});
