import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { basic, send } from '../../../harness/http/api.ts';
import { noOpenssl, redisTls, TestAuthority } from '../../../harness/http/certificates.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { freePort } from '../../../harness/processes/ports.ts';
import { RunningBus } from '../../../harness/processes/running_bus.ts';
import { WebProcess } from '../../../harness/processes/web_process.ts';
import { aclRules, rulesSinceFirstRelease } from '../../../harness/redis/acl.ts';
import { PrivateRedis } from '../../../harness/redis/private_redis.ts';
import { until } from '../../../harness/until.ts';
import { readConfig } from '../../../src/config.ts';
import { BootError } from '../../../src/errors.ts';
import { createLog } from '../../../src/log.ts';
import { boot, openPartitions } from '../../../src/processes/process.ts';
import { connectOne } from '../../../src/store/connection.ts';
import { Partition } from '../../../src/store/partition.ts';
import { countProcesses } from '../../../src/store/presence.ts';
import { commandsOf, readScripts } from '../../../src/store/script_source.ts';
import { answerParameters, challengeFor, header } from '../../authentication/digest_client.ts';

const PASSWORD = 'the-password-of-the-bus';

const RULES = aclRules();
const ALLOWED = RULES.filter((rule) => rule.startsWith('+')).map((rule) => rule.slice(1));

/** Commands that a run of these tests need not use, and when the bus does. */
const RARE = new Set([
  'client|setname', // on a cluster, as are the next three
  'cluster|slots',
  'readonly',
  'readwrite',
  'evalsha', // when Redis refuses functions
  'function|delete', // at the start of another release
  'hstrlen', // when the definition of a trigger grows
  'incr', // when a batch of a Ruby process is adopted
  'lpop', // when a share is full
  'lpos', // when a sweep finds a job twice, or in both of two readings, or an ended delivery is asked for by id
  'ltrim', // when a batch is cut, or the log of deliveries is full
  'renamenx', // at the takeover from the Ruby Routemaster
  'select', // with a database number in ROUTEMASTER_REDIS_URL
  'pubsub|shardnumsub', // with a hash tag in the prefix
  'spublish', // the same
  'ssubscribe', // the same
  'wait', // with ROUTEMASTER_MIN_REPLICAS
  'zmscore', // when deliveries in flight are listed
  'zremrangebyscore', // at a login to the console
  'zrank', // when jobs are listed page by page
]);

/** The commands of the user in docs/operating.md of release 1.0.0. */
const FIRST_RELEASE = `
  +bitfield +del +eval +evalsha +exec +exists +fcall +function|delete +function|list +function|load +get +hdel +hexists
  +hget +hgetall +hincrby +hlen +hmget +hscan +hset +hsetnx +hvals +incrby +info +lindex +llen +lpop +lpos +lpush
  +lrange +lrem +lset +ltrim +memory|usage +multi +object|encoding +pexpire +ping +publish +rename +renamenx +rpop
  +rpush +rpushx +sadd +scan +scard +select +set +setbit +sismember +smembers +smismember +srem +sscan +strlen
  +subscribe +time +type +unlink +zadd +zcard +zcount +zpopmin +zrandmember +zrange +zrangebyscore +zrem +zrevrange
  +zrevrangebyscore +zscan +zscore`;

/** Returns the configuration of a Redis with TLS, and with the user of docs/operating.md. */
const secure = (port: number, certificates: TestAuthority): Record<string, string> => ({
  ...redisTls(port, certificates),
  user: `routemaster ${RULES.join(' ').replace('>PASSWORD', `>${PASSWORD}`)}`,
});

/** Boots a bus with these settings in this process. Resolves with the error that would end a web process or worker. */
async function refusedBoot(env: Record<string, string>): Promise<BootError> {
  const config = readConfig({ ROUTEMASTER_ROOT_KEY: ROOT_KEY, ...env });
  const log = createLog('silent', {});
  const { redis, partitions } = openPartitions(config, log);
  try {
    await boot(partitions, config, log);
  } catch (error) {
    if (error instanceof BootError) return error;
    throw error;
  } finally {
    redis.disconnect();
  }
  throw new Error('the bus has booted');
}

describe('the ACL of docs/operating.md', () => {
  test('must permit these commands; otherwise no process starts, and the log names the ACL', async (t) => {
    for (const command of ['info', 'lset']) {
      const user = `bus on >password ~* &* +@all -${command}`;
      const redis = await PrivateRedis.during(t, { port: 0, config: { user } });
      const url = redis.url.replace('//', '//bus:password@');
      const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: url });
      assert.equal(await web.exitCode, 78, web.output);
      assert.match(web.output, /^Redis says: NOPERM .*docs\/operating\.md has the ACL/m);
      assert.ok(web.output.includes(`. Grant +${command} to the Redis user; docs/`), web.output);
      assert.doesNotMatch(web.output, /user_function/);
    }
  });

  test('must fit the prefix of the bus; otherwise no process starts, and the log says what to grant', async (t) => {
    const keys = (begin: string) =>
      `Keys of the bus ${begin}: the ACL and ROUTEMASTER_REDIS_PREFIX do not fit. `;
    const cases = [
      ['~* &wake*', { ROUTEMASTER_REDIS_PREFIX: 'new:' }, 'Grant &new:wake* to the Redis user'],
      [
        '~* &wake*',
        { ROUTEMASTER_REDIS_PREFIX: 'new:', ROUTEMASTER_PARTITIONS: '2' },
        'Grant &new:*wake* to the Redis user',
      ],
      ['~shop:* &shop:wake*', {}, `${keys('have no prefix')}Grant ~* to the Redis user`],
      [
        '~shop:* &shop:wake*',
        { ROUTEMASTER_REDIS_PREFIX: 'shpo:' },
        `${keys('begin with "shpo:"')}Grant ~shpo:* to the Redis user`,
      ],
    ] as const;
    for (const [patterns, env, advice] of cases) {
      const user = `bus on >password resetchannels ${patterns} +@all`;
      const redis = await PrivateRedis.during(t, { port: 0, config: { user } });
      const url = redis.url.replace('//', '//bus:password@');
      const { message, exitCode } = await refusedBoot({ ...env, ROUTEMASTER_REDIS_URL: url });
      assert.equal(exitCode, 78, message);
      assert.ok(message.includes(`. ${advice}, or correct the prefix; docs/`), message);
    }
  });

  test('is enough after an upgrade from 1.0.0 with what docs/migrating.md grants on one Redis', async (t) => {
    const first = FIRST_RELEASE.trim().replace(/\s+/g, ' ');
    const user = `bus on >password ~* resetchannels &wake -@all ${first} ${rulesSinceFirstRelease()}`;
    const redis = await PrivateRedis.during(t, { port: 0, config: { user } });
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url.replace('//', '//bus:password@') });
    await web.port(); // throws if the process ends
  });

  test('may forbid functions, BITFIELD, XADD and SUBSCRIBE; a process then logs once what to grant', async (t) => {
    const user = 'bus on >password ~* &* +@all -function -bitfield -xadd -subscribe';
    const redis = await PrivateRedis.during(t, { port: 0, config: { user } });
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url.replace('//', '//bus:password@') });
    const port = await web.port();
    const warnings = () => web.output.split('\n').filter((line) => line.includes('"level":40'));
    const wrong = () => send(port, 'GET', '/topics', { authorization: basic('nobody', 'x') });
    await until(async () => (await wrong()).status === 401);
    const authorization = basic(ROOT_KEY, '');
    const made = await send(port, 'POST', '/api_tokens', { authorization }, '{"name":"shop"}');
    const { token, secret } = JSON.parse(made.text);
    const publish = () =>
      send(
        port,
        'POST',
        '/topics/t',
        { authorization: basic(token, secret) },
        '{"type":"noop","url":"https://a.example/1"}',
      );
    for (let i = 0; i < 3; i++) {
      assert.equal((await send(port, 'DELETE', '/topics/none', { authorization })).status, 404);
      assert.equal((await publish()).status, 204);
      assert.equal((await wrong()).status, 401);
    }
    const one = (pattern: RegExp) =>
      until(() => warnings().filter((line) => pattern.test(line)).length === 1);
    await one(/NOPERM .*'function\|l.*grant its user \+fcall \+function\|load/);
    await one(/NOPERM.*'bitfield'.*grant the user of Redis \+bitfield/);
    await one(/the audit cannot be stored .*grant the user of Redis \+xadd/);
    await one(/NOPERM.*'subscribe'.*seconds late.*grant the user of Redis \+subscribe/);
    const others = warnings().filter(
      (line) => !/a new one begins|NOPERM|"authentication failed"|the audit cannot/.test(line),
    );
    assert.deepEqual(others, []);
  });

  test('may lose a command while the bus runs; calls that need it are answered 503, and the log says why', async (t) => {
    const user = 'bus on >password ~* &* +@all';
    const redis = await PrivateRedis.during(t, { port: 0, config: { user } });
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url.replace('//', '//bus:password@') });
    const port = await web.port();
    const root = { authorization: basic(ROOT_KEY, '') };
    const made = await send(port, 'POST', '/api_tokens', root, '{"name":"shop"}');
    const { token, secret } = JSON.parse(made.text);
    const client = { authorization: basic(token, secret) };
    const [publish, list] = [
      () => send(port, 'POST', '/topics/t', client, '{"type":"noop","url":"https://a.example/1"}'),
      () => send(port, 'GET', '/topics', client),
    ];
    const administrator = connectOne(redis.url, capturedLog().log);
    t.after(() => administrator.disconnect());
    await until(() => administrator.status === 'ready');
    await administrator.acl('SETUSER', 'bus', '-hincrby', '-smembers');
    for (let i = 0; i < 3; i++)
      for (const call of [publish, list]) {
        const { status, text } = await call();
        assert.equal(status, 503, text);
        const { code, detail } = JSON.parse(text);
        assert.equal(code, 'storage_unavailable');
        assert.match(detail, /^Redis refuses commands \(NOPERM\)/);
      }
    const pulse = () => send(port, 'GET', '/pulse', client);
    const { status, text } = await pulse();
    assert.equal(status, 503, text);
    assert.match(JSON.parse(text).detail, /^Redis refuses commands \(NOPERM\)\. Nothing was changed/);
    const refusals = () => web.output.split('\n').filter((line) => line.includes('NOPERM'));
    await until(() => refusals().length > 0);
    await administrator.acl('SETUSER', 'bus', '+hincrby', '+smembers');
    assert.equal((await publish()).status, 204);
    assert.equal((await pulse()).status, 204);
    assert.equal(refusals().length, 1, web.output);
    assert.match(refusals()[0] ?? '', /"reason":"Redis refuses commands \(NOPERM\): The user executing/);
    assert.match(refusals()[0] ?? '', /forbids what a request needs; its command ACL LOG names the command/);
    assert.doesNotMatch(web.output, /"stack"/);
  });

  test('permits every command of the scripts', () => {
    const files = readScripts().flatMap(({ text, modules }) => [text, ...modules.map((each) => each.text)]);
    const commands = files.flatMap((text) => commandsOf(text).map((name) => name.toLowerCase()));
    const missing = [...new Set(commands)].filter(
      (name) => !ALLOWED.some((each) => each.split('|')[0] === name),
    );
    assert.deepEqual(missing, []);
    assert.ok(commands.length > 100);
  });

  test('permits no administration of Redis', () => {
    assert.ok(RULES.includes('-@all'));
    for (const command of [
      'config',
      'keys',
      'flushall',
      'flushdb',
      'acl',
      'debug',
      'shutdown',
      'monitor',
      'script',
    ])
      assert.ok(!ALLOWED.some((each) => each.split('|')[0] === command), command);
  });
});

describe('a bus whose Redis is behind TLS and has the ACL of docs/operating.md', {
  skip: noOpenssl,
}, async () => {
  if (noOpenssl) return;
  const certificates = new TestAuthority();
  process.once('exit', () => certificates.remove());
  const port = await freePort();
  const bus = RunningBus.forTests({
    redis: { ...secure(port, certificates), maxmemory: '20mb' },
    env: {
      ROUTEMASTER_REDIS_URL: `rediss://routemaster:${PASSWORD}@127.0.0.1:${port}`,
      ROUTEMASTER_REDIS_CA: certificates.ca,
      ROUTEMASTER_PUBLISH_RATE: '1000000',
      ROUTEMASTER_MONITOR_INTERVAL: '1',
      ROUTEMASTER_WORKER_LEASE: '1',
      METRIC_COLLECTION_SERVICE: 'print',
    },
  });
  bus.announceError(/dead letter/);

  /** Asserts that Redis has refused no command of the bus, not even within a script. */
  async function assertPermitted(): Promise<void> {
    const refused = (await bus.store.redis.call('ACL', 'LOG')) as string[][];
    assert.deepEqual(
      refused.map((each) => each.join(' ')),
      [],
    );
  }

  test('publishes, once under a key, and delivers', async (t) => {
    const { publisher, topic, subscriber, receiver } = await bus.scene(t);
    await publisher.publish(topic, { url: 'https://a.example/1' }, 'key');
    await publisher.publish(topic, { url: 'https://a.example/1' }, 'key');
    await publisher.publish(topic, [{ url: 'https://a.example/2' }, { url: 'https://a.example/3' }]);
    await until(async () => (await subscriber.report()).events.sent === 3);
    assert.equal(receiver.events.length, 3);
    await subscriber.call('DELETE', `/subscriber/topics/${topic}`);
    await subscriber.call('DELETE', '/subscriber');
    await publisher.call('DELETE', `/topics/${topic}`);
    await bus.root.call('DELETE', `/api_tokens/${subscriber.token}`);
    await bus.root.call('POST', '/api_tokens', { name: 'old', token: 'old--1' });
    await until(async () => ((await bus.root.call('GET', '/audit')) as unknown[]).length > 0);
    await bus.root.call('GET', '/tail');
    await assertPermitted();
  });

  test('rotates secrets, makes nonces, and counts failed authentications for all processes', async (t) => {
    const { publisher } = await bus.scene(t);
    await bus.root.call('POST', `/api_tokens/${publisher.token}/secret`, {});
    const headers = { authorization: `Basic ${btoa(`${publisher.token}:wrong`)}` };
    const refused = await fetch(`${bus.url}/pulse`, { headers });
    assert.equal(refused.status, 401);
    assert.match(refused.headers.get('www-authenticate') ?? '', /nonce=/);
    await assertPermitted();
    assert.equal((await bus.store.redis.keys(bus.store.keys.failed_logins('*'))).length, 1);
  });

  test('counts its processes', async (t) => {
    const url = `rediss://routemaster:${PASSWORD}@127.0.0.1:${port}`;
    const redis = connectOne(url, capturedLog().log, { ca: certificates.caText, verify: true });
    t.after(() => redis.disconnect());
    const control = new Partition(redis, { prefix: bus.store.prefix });
    await until(async () => {
      const found = await countProcesses(control);
      return found?.web === 1 && found.worker === 1;
    });
    await assertPermitted();
  });

  test('keeps dead letters, retries and purges them', async (t) => {
    const { publisher, topic, subscriber, receiver } = await bus.scene(t);
    const { callback } = receiver;
    await subscriber.call('POST', '/subscription', {
      topics: [topic],
      callback,
      uuid: 'me',
      max_attempts: 1,
    });
    receiver.usual = answer.status(500);
    await publisher.publish(topic, { url: 'https://a.example/1' });
    const letters = () => subscriber.call('GET', '/dead_letters') as Promise<{ id: string }[]>;
    const [letter] = await until(async () => ((await letters()).length > 0 ? letters() : undefined));
    await subscriber.call('GET', `/dead_letters/${letter?.id}`);
    await subscriber.call('POST', `/dead_letters/${letter?.id}/retry`);
    await until(async () => (await letters()).length > 0);
    await subscriber.call('POST', '/dead_letters/retry');
    await until(async () => (await letters()).length > 0);
    await subscriber.call('DELETE', '/dead_letters');
    await assertPermitted();
  });

  test('keeps delayed events, sweeps, lists, deletes and publishes them', async (t) => {
    const { publisher, topic, receiver } = await bus.scene(t);
    await publisher.publish(topic, [
      { id: 'goes', url: 'https://a.example/1', delay: 60_000 },
      { id: 'comes', url: 'https://a.example/2', delay: 100 },
    ]);
    await receiver.delivery(1);
    const stats = () => bus.store.redis.info('commandstats');
    await until(async () => /^cmdstat_hstrlen:/m.test(await stats()), { what: 'a sweep has come by' });
    assert.equal(((await publisher.call('GET', `/topics/${topic}/delayed`)) as unknown[]).length, 1);
    await publisher.call('DELETE', `/topics/${topic}/delayed/goes`);
    await assertPermitted();
  });

  test('sweeps, frees the jobs of a dead worker, and shows figures', async (t) => {
    const { publisher, topic, subscriber, receiver } = await bus.scene(t);
    const release = receiver.hold();
    await publisher.publish(topic, { url: 'https://a.example/1' });
    await receiver.delivery(1);
    await bus.process('worker').kill();
    await bus.start('worker');
    await receiver.delivery(2);
    release();
    await until(async () => (await subscriber.report()).events.sent === 1);
    assert.ok((await bus.metric('routemaster_redis_memory_used_bytes')) > 0);
    await bus.process('worker').logs('figure');
    await assertPermitted();
  });

  test('drops the oldest batches when it is full', async (t) => {
    const { publisher, topic, subscriber, receiver } = await bus.scene(t, { max: 50 });
    receiver.usual = answer.status(503, { 'retry-after': '3600' });
    const events = Array.from({ length: 20 }, (_, n) => ({
      url: `https://a.example/${n}`,
      data: 'x'.repeat(8000),
    }));
    const full = async () =>
      publisher.publish(topic, events).then(
        () => false,
        (error) => /storage_full/.test(error),
      );
    await until(full, { everyMs: 0 });
    await until(async () => (await bus.metric('routemaster_events_autodropped_total')) > 0);
    await subscriber.call('DELETE', '/subscriber');
    const accepted = () =>
      publisher.publish(topic, { url: 'https://a.example/1' }).then(
        () => true,
        () => false,
      );
    await until(accepted, { what: 'the storage has room again' });
    await assertPermitted();
  });

  test('adds events to an open batch, which a shorter timeout makes due', async (t) => {
    const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 60_000, max: 100 });
    for (const n of [1, 2]) await publisher.publish(topic, { url: `https://a.example/${n}` });
    const { callback } = receiver;
    await subscriber.call('POST', '/subscription', { topics: [topic], callback, uuid: 'me', timeout: 0 });
    await receiver.delivery(1);
    assert.equal(receiver.events.length, 2);
    await assertPermitted();
  });

  test('authenticates by Digest', async (t) => {
    const { publisher } = await bus.scene(t);
    const { headers } = await fetch(`${bus.url}/topics`);
    const challenges = (headers.get('www-authenticate') ?? '').split(/, (?=Digest|Basic)/);
    const parameters = answerParameters(
      challengeFor(
        'SHA-256',
        challenges.filter((each) => each.startsWith('Digest')),
      ),
      { user: publisher.token, secret: publisher.secret, uri: '/topics' },
    );
    const { status } = await fetch(`${bus.url}/topics`, { headers: { authorization: header(parameters) } });
    assert.equal(status, 200);
    await assertPermitted();
  });

  test('uses every command that the ACL permits, except in rare cases', async () => {
    const stats = await bus.store.redis.info('commandstats');
    const used = new Set([...stats.matchAll(/^cmdstat_([^:]+):calls=[1-9]/gm)].map(([, name]) => name));
    assert.deepEqual(
      ALLOWED.filter((name) => !used.has(name) && !RARE.has(name)),
      [],
    );
  });
});
