import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { Api, basic, problemIn, send } from '../../harness/http/api.ts';
import { assertWorks, stored } from '../../harness/http/refusal.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore } from '../../harness/redis/store.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';
import { BootError } from '../../src/errors.ts';

/** An answer that waited for Redis would take five seconds, after which a silent connection is closed. */
const AT_ONCE_MS = 4500;
const ROOT = basic(ROOT_KEY, '');
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const publish = (api: Api, body = EVENT) => api.call('POST', '/topics/widgets', { as: 'pub', body });

describe('while Redis is away', () => {
  const redisConfig = { appendonly: 'yes' };
  const api = new Api({ env: { ROUTEMASTER_CLIENTS: 'fixed--1' }, redisConfig, prepare: assertWorks });
  const calls = [
    ['pub', 'POST', '/topics/widgets', EVENT],
    ['pub', 'GET', '/topics'],
    ['root', 'DELETE', '/topics/widgets'],
    ['pub', 'POST', '/subscription', '{"topics":["widgets"],"callback":"https://93.184.216.34"}'],
    ['pub', 'GET', '/subscriptions'],
    ['pub', 'DELETE', '/subscriber'],
    ['pub', 'GET', '/dead_letters'],
    ['pub', 'POST', '/dead_letters/retry'],
    ['pub', 'DELETE', '/dead_letters'],
    ['root', 'POST', '/api_tokens', '{"name":"late"}'],
    ['root', 'GET', '/api_tokens'],
    ['root', 'GET', '/pulse'],
    ['root', 'GET', '/pulse/scaling'],
    ['root', 'GET', '/metrics'],
  ] as const;

  test('every call is answered 503 at once, health 200; calls succeed again when Redis is back', async () => {
    api.enter({ name: 'fixed', token: 'fixed--1' });
    for (const round of ['first', 'second']) {
      await api.redis.kill('SIGKILL');
      for (const [as, method, path, body] of calls) {
        const answer = await api.call(method, path, {
          as: as === 'pub' ? 'fixed' : as,
          ...(body && { body }),
        });
        assert.equal(problemIn(answer).code, 'storage_unavailable', `${round} ${method} ${path}`);
        const stored =
          method === 'GET' ? /\. Nothing was changed; try again/ : /unknown whether anything was stored/;
        assert.match(problemIn(answer).detail, stored, `${method} ${path}`);
        assert.equal(answer.headers['retry-after'], '1');
        assert.ok(answer.tookMs < AT_ONCE_MS, `${path} took ${answer.tookMs} ms`);
      }
      const health = await api.call('GET', '/health');
      assert.deepEqual([health.status, health.text], [200, '{}']);
      assert.equal((await api.call('GET', '/nope')).status, 404);
      await api.redis.restart();
      await until(async () => (await api.call('GET', '/pulse', { as: 'root' })).status === 204);
      const again = await api.call('POST', '/topics/again', { as: 'fixed', body: EVENT });
      assert.equal(again.status, 204, again.text);
    }
  });

  test('publishes under way are answered, each 204 or 503', async () => {
    const publishes = Array.from({ length: 200 }, () =>
      api.call('POST', '/topics/widgets', { as: 'fixed', body: EVENT }),
    );
    await api.redis.kill('SIGKILL');
    const statuses = new Set((await Promise.all(publishes)).map(({ status }) => status));
    assert.deepEqual(statuses.difference(new Set([204, 503])), new Set());
    await api.redis.restart();
    await until(async () => (await api.call('GET', '/pulse', { as: 'root' })).status === 204);
  });
});

test('calls to a Redis that hangs time out after seconds, and succeed again when it continues', async (t) => {
  const redis = await PrivateRedis.during(t);
  const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
  const { port, pulse } = await ready(web);
  await redis.kill('SIGSTOP');
  const answer = await pulse();
  assert.equal(problemIn(answer).code, 'storage_unavailable');
  assert.ok(answer.tookMs < 9500, `it took ${answer.tookMs} ms`);
  assert.equal((await send(port, 'GET', '/health')).status, 200);
  await redis.kill('SIGCONT');
  await until(async () => (await pulse()).status === 204);
});

test('a web process that starts while Redis is away answers 503, and works as soon as Redis is there', async (t) => {
  const redis = await PrivateRedis.during(t);
  await redis.kill('SIGKILL');
  const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
  const port = await web.port();
  const early = await send(port, 'GET', '/pulse');
  assert.equal(problemIn(early).code, 'storage_unavailable');
  assert.equal(early.headers['retry-after'], '1');
  assert.ok(early.tookMs < AT_ONCE_MS, `it took ${early.tookMs} ms`);
  assert.equal((await send(port, 'GET', '/health')).status, 200);
  await redis.restart();
  await ready(web);
});

test('after a Redis has come back empty, nothing is accepted for nobody until a process starts', async (t) => {
  const redis = await PrivateRedis.during(t, { config: { appendonly: 'no', save: '' } });
  const env = { ROUTEMASTER_REDIS_URL: redis.url, ROUTEMASTER_CLIENTS: 'fixed--1' };
  const web = WebProcess.during(t, env);
  const { port } = await ready(web);
  const root = { authorization: ROOT };
  const made = await send(port, 'POST', '/api_tokens', root, '{"name":"shop"}');
  const { token, secret } = JSON.parse(made.text);
  const publish = (topic: string, user: string, password: string) =>
    send(port, 'POST', `/topics/${topic}`, { authorization: basic(user, password) }, EVENT);
  const publishes = () =>
    Promise.all([publish('widgets', token, secret), publish('gadgets', 'fixed--1', 'x')]);
  assert.deepEqual(
    (await publishes()).map(({ status }) => status),
    [204, 204],
  );
  const slow = connect(port, '127.0.0.1').setEncoding('utf8');
  t.after(() => slow.destroy());
  const headers = [
    'Host: bus',
    `Authorization: ${basic('fixed--1', 'x')}`,
    `Content-Length: ${EVENT.length}`,
  ];
  slow.write(`POST /topics/gadgets HTTP/1.1\r\n${headers.join('\r\n')}\r\nExpect: 100-continue\r\n\r\n`);
  await once(slow, 'data');
  await redis.restart();
  const store = await openStore(redis.url);
  t.after(() => store.redis.disconnect());
  assert.equal(await store.redis.dbsize(), 0);
  const refusal = async () => {
    const answers = await publishes();
    for (const answer of answers) assert.equal(problemIn(answer).code, 'storage_unavailable');
    return answers.map((answer) => problemIn(answer).detail);
  };
  // Until the process has connected again, it says that Redis is away.
  await until(async () => (await refusal()).every((detail) => /^Redis has lost the data/.test(detail)));
  await web.prints(/"level":50.*Redis has lost the data of the bus.*restore a backup/);
  const cookie = `routemaster_session=${'x'.repeat(32)}`;
  const page = await send(port, 'GET', '/console', { cookie, 'sec-fetch-site': 'none' });
  assert.match(
    page.text,
    /lost the data of the bus\. Nothing is accepted until .* restore a backup of Redis\. Do not/,
  );
  slow.write(EVENT);
  const [answer] = await once(slow, 'data');
  assert.match(answer, /^HTTP\/1.1 503 /, 'a publish whose body was under way');
  assert.equal((await send(port, 'GET', '/health')).status, 200);
  const next = WebProcess.during(t, env);
  await ready(next);
  await next.prints(/"level":40.*no bus yet: a new one begins.*restore a backup/);
  // The process may remember the client for a second.
  await until(async () => {
    const [made, fixed] = await publishes();
    return made?.status === 401 && fixed?.status === 204;
  });
});

test('a process that requires data begins no bus on an empty Redis, but waits until there is one', async (t) => {
  const redis = await PrivateRedis.during(t);
  const env = { ROUTEMASTER_REDIS_URL: redis.url, ROUTEMASTER_PARTITIONS: '2' };
  const web = WebProcess.during(t, { ...env, ROUTEMASTER_REQUIRE_DATA: 'yes' });
  const port = await web.port();
  await web.prints(
    /"level":50.*"away":"partition 0".*Redis does not have the data of the bus.*_PREFIX.*a backup/,
  );
  const store = await openStore(redis.url);
  t.after(() => store.redis.disconnect());
  assert.equal(await store.redis.dbsize(), 0);
  const pulse = await send(port, 'GET', '/pulse', { authorization: ROOT });
  assert.equal(problemIn(pulse).code, 'storage_unavailable');
  assert.equal((await send(port, 'GET', '/health')).status, 200);
  const stopped = WebProcess.during(t, { ...env, ROUTEMASTER_REQUIRE_DATA: 'yes' });
  await send(await stopped.port(), 'GET', '/pulse', { authorization: ROOT });
  stopped.signal('SIGTERM');
  assert.equal(await stopped.exitCode, 0);
  assert.equal(await store.redis.dbsize(), 0, 'it has not stored how many calls it refused');
  await ready(WebProcess.during(t, env));
  await ready(web);
  assert.equal(web.output.match(/partition 0.*not have the data/g)?.length, 1);
  assert.doesNotMatch(web.output, /a new one begins/);
});

test('a process that requires data ends if Redis has it in another number of partitions', async (t) => {
  const redis = await PrivateRedis.during(t);
  const env = { ROUTEMASTER_REDIS_URL: redis.url };
  await ready(WebProcess.during(t, env));
  const other = WebProcess.during(t, {
    ...env,
    ROUTEMASTER_PARTITIONS: '2',
    ROUTEMASTER_REQUIRE_DATA: 'yes',
  });
  await other.prints(/This Redis has a bus with one partition/);
  assert.equal(await other.exitCode, BootError.EXIT_CODE);
});

describe('Redis is full', () => {
  const api = new Api({ redisConfig: { maxmemory: '8mb' }, prepare: assertWorks });

  test('a publish is answered 503 storage_full, and no part of it is stored', async () => {
    await api.call('POST', '/subscription', {
      as: 'sub',
      body: '{"topics":["widgets"],"callback":"https://a.example","timeout":3600000}',
    });
    const events = (count: number) =>
      `[${Array(count).fill(`{"type":"noop","url":"https://a.example","data":"${'x'.repeat(9000)}"}`)}]`;
    for (const body of [events(100), events(1), EVENT]) {
      const answer = await until(async () => {
        const tried = await publish(api, body);
        return tried.status === 204 ? undefined : tried;
      });
      assert.equal(problemIn(answer).code, 'storage_full');
      assert.equal(answer.headers['retry-after'], '2');
    }
    // Memory is being freed: the job for that is in its queue now.
    await until(async () => (await api.store.redis.llen(api.store.keys.jobs_instant('aux'))) === 1);
    await assertConsistent(api.store);
    const [counter] = await api.store.redis.hmget(api.store.keys.topic('widgets'), 'counter');
    const queued = await api.store.redis.hget(api.store.keys.gauge_events(), await api.token('sub'));
    assert.equal(Number(queued), Number(counter) - 1, 'all but the event from before the subscription');
  });

  test('every write is refused', async () => {
    await api.store.redis.config('SET', 'maxmemory', '1');
    const before = await stored(api);
    const writes = [
      ['pub', 'POST', '/topics/widgets', EVENT],
      ['pub', 'POST', '/topics/gadgets', EVENT],
      ['pub', 'POST', '/subscription', '{"topics":["widgets"],"callback":"https://a.example"}'],
      ['root', 'POST', '/api_tokens', '{"name":"late"}'],
      ['root', 'POST', '/api_tokens', '{"name":"late","token":"late--1"}'],
    ] as const;
    for (const [as, method, path, body] of writes) {
      const refused = await api.call(method, path, { as, body });
      assert.equal(problemIn(refused).code, 'storage_full', path);
      assert.deepEqual(await stored(api), before, path);
    }
  });

  test('reads and calls that free memory still work; publishing works after them', async () => {
    const allowed = [
      ['pub', 'GET', '/topics', 200],
      ['sub', 'GET', '/subscriptions', 200],
      ['sub', 'GET', '/dead_letters', 200],
      ['sub', 'DELETE', '/dead_letters', 200],
      ['root', 'GET', '/api_tokens', 200],
      ['root', 'GET', '/pulse', 204],
      ['root', 'GET', '/pulse/scaling', 204],
      ['root', 'GET', '/metrics', 200],
      ['sub', 'DELETE', '/subscriber/topics/widgets', 204],
      ['pub', 'DELETE', '/topics/widgets', 204],
      ['sub', 'DELETE', '/subscriber', 204],
      ['root', 'DELETE', `/api_tokens/${await api.token('sub')}`, 204],
    ] as const;
    for (const [as, method, path, status] of allowed) {
      const answer = await api.call(method, path, { as });
      assert.equal(answer.status, status, `${method} ${path} ${answer.text}`);
    }
    await api.store.redis.config('SET', 'maxmemory', '0');
    await until(async () => (await publish(api)).status === 204);
    await assertWorks(api);
  });
});

describe('a web process refuses to start, and says what to change,', () => {
  test('on a Redis that would evict events', async (t) => {
    const redis = await PrivateRedis.during(t, { config: { 'maxmemory-policy': 'allkeys-lru' } });
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
    assert.equal(await web.exitCode, 78, web.output);
    assert.match(web.output, /maxmemory-policy allkeys-lru.* Set maxmemory-policy to noeviction/);
  });

  test('on keys that another program has written', async (t) => {
    const redis = await PrivateRedis.during(t);
    const store = await openStore(redis.url);
    t.after(() => store.redis.disconnect());
    await store.redis.set(store.keys.move(), 'to the left');
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
    assert.equal(await web.exitCode, 78, web.output);
    assert.match(web.output, /Another program .*: move is a string instead of a hash \(1 key\)\. Find/);
  });
});

test('a web process that Redis refuses at the boot says why, once, and starts when Redis takes writes', async (t) => {
  const redis = await PrivateRedis.during(t, { config: { 'min-replicas-to-write': '1' } });
  const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
  await web.prints(/"reason":"NOREPLICAS .*refuses commands; trying again/);
  const store = await openStore(redis.url);
  await store.redis.config('SET', 'min-replicas-to-write', '0');
  await ready(web);
  assert.equal(web.output.match(/"reason":"NOREPLICAS .*refuses commands; trying again/g)?.length, 1);
  store.redis.disconnect();
});

test('/pulse says why Redis refuses writes: too few replicas, or it is a replica itself', async (t) => {
  const redis = await PrivateRedis.during(t);
  const { pulse } = await ready(WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url }));
  const store = await openStore(redis.url);
  t.after(() => store.redis.disconnect());
  const ways = [
    [
      'NOREPLICAS',
      ['CONFIG', 'SET', 'min-replicas-to-write', '1'],
      ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
    ],
    ['READONLY', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
  ] as const;
  const keys = await store.redis.dbsize();
  for (const [word, [refuse, ...more], [accept, ...rest]] of ways) {
    await store.redis.call(refuse, ...more);
    const refused = await until(async () => {
      const answer = await pulse();
      return answer.status === 503 ? answer : undefined;
    });
    const problem = problemIn(refused);
    assert.equal(problem.code, 'storage_unavailable');
    assert.match(problem.detail, new RegExp(`^Redis refuses commands \\(${word}\\)\\. Nothing was changed`));
    await store.redis.call(accept, ...rest);
    await until(async () => (await pulse()).status === 204);
  }
  assert.equal(await store.redis.dbsize(), keys);
});

/** Resolves with the port of a web process when its storage is prepared. */
async function ready(web: WebProcess) {
  const port = await web.port();
  const pulse = () => send(port, 'GET', '/pulse', { authorization: ROOT });
  await until(async () => (await pulse()).status === 204);
  return { port, pulse };
}
