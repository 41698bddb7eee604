import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { basic, send } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { RUBY_TOKEN, writeRubyRedis } from '../../harness/redis/ruby_redis.ts';
import { openStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';

const EVENT = '{"type":"noop","url":"https://a.example.com/1"}';

/** Starts the web process of a bus, whose Redis the Ruby Routemaster filled if `ofRuby`. */
async function started(
  t: TestContext,
  ofRuby: boolean,
  env: Record<string, string> = {},
): Promise<RunningBus> {
  const prepare = ofRuby
    ? { prepare: ({ redis }: { redis: Parameters<typeof writeRubyRedis>[0] }) => writeRubyRedis(redis) }
    : {};
  const bus = await RunningBus.open({ env, ...prepare });
  t.after(() => bus.close());
  await bus.start('web');
  return bus;
}

/** Resolves with the status that a client without a secret gets for a publish. */
async function published(bus: RunningBus): Promise<number> {
  await bus.root.call('POST', '/api_tokens', { name: 'demo', token: RUBY_TOKEN });
  const authorization = basic(RUBY_TOKEN, 'x');
  const { status, headers } = await send(
    Number(new URL(bus.url).port),
    'POST',
    '/topics/gadgets',
    { authorization },
    EVENT,
  );
  assert.equal(headers['content-length'], status === 204 ? undefined : '0', 'the length is that of no body');
  assert.equal(headers['transfer-encoding'], undefined);
  return status;
}

describe('a bus speaks as the Ruby Routemaster', () => {
  for (const [title, ofRuby, usual, other, changed] of [
    ['if it took over its Redis', true, 200, 'none', 204],
    ['not if its Redis was empty', false, 204, 'routemaster', 200],
  ] as const) {
    test(`${title}, also after a restart, unless ROUTEMASTER_COMPATIBILITY says otherwise`, async (t) => {
      const bus = await started(t, ofRuby);
      assert.equal(await published(bus), usual);
      for (const [env, expected] of [
        [{}, usual],
        [{ ROUTEMASTER_COMPATIBILITY: other }, changed],
      ] as const) {
        await bus.process('web').stop();
        await bus.start('web', env);
        assert.equal(await published(bus), expected);
      }
    });
  }

  test('as soon as Redis tells that it took over, which may be after it listens', async (t) => {
    const redis = await PrivateRedis.during(t, { config: { appendonly: 'yes', appendfsync: 'always' } });
    const { redis: commands } = await openStore(redis.url);
    await writeRubyRedis(commands);
    commands.disconnect();
    await redis.kill();
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url });
    const port = await web.port();
    const create = () =>
      send(port, 'POST', '/api_tokens', { authorization: basic(ROOT_KEY, '') }, '{"name":"shop"}');
    assert.equal((await create()).status, 503);
    await redis.restart();
    const made = await until(async () => {
      const answer = await create();
      return answer.status === 201 ? JSON.parse(answer.text) : undefined;
    });
    assert.deepEqual(Object.keys(made).sort(), ['name', 'token']);
  });

  test('and a worker counts the deliveries of ROUTEMASTER_WORKER_THREADS, as its threads did', async (t) => {
    const bus = await started(t, true, { ROUTEMASTER_WORKER_THREADS: '5' });
    const worker = await bus.start('worker');
    const { threads, workersPerThread, compatibility } = await worker.logs('delivering');
    assert.deepEqual([threads, workersPerThread, compatibility], [1, 5, 'routemaster']);
  });
});

for (const [mode, isIgnored] of [
  ['none', false],
  ['routemaster', true],
] as const)
  describe(`in the mode ${mode}`, () => {
    let bus: RunningBus;
    aroundTests(
      async () => {
        bus = await RunningBus.open({ env: { ROUTEMASTER_COMPATIBILITY: mode } });
        await bus.start('web');
      },
      () => bus.close(),
    );

    const statusAs = (authorization: string) => async (method: string, path: string, body?: string) =>
      (await send(Number(new URL(bus.url).port), method, path, { authorization }, body)).status;

    test(`query parameters that the Ruby Routemaster ignored are ${isIgnored ? 'ignored' : 'refused'}`, async () => {
      await bus.root.call('POST', '/api_tokens', { name: 'demo', token: RUBY_TOKEN });
      const status = statusAs(basic(RUBY_TOKEN, 'x'));
      const expected = isIgnored ? 200 : 400;
      assert.equal(await status('GET', '/topics?page=2'), expected);
      assert.equal(await status('POST', '/topics/gadgets?page=2', EVENT), expected);
      assert.equal(await status('GET', '/topics?limit=0'), 400);
      assert.equal(await status('GET', '/joins?page=2'), 400);
      assert.equal(await status('GET', '/health?page=2'), 200);
    });

    test(`fields of a new client that the Ruby Routemaster ignored are ${isIgnored ? 'ignored' : 'refused'}`, async () => {
      const status = statusAs(basic(ROOT_KEY, ''));
      const unknown = '{"name":"demo","subscibe":[]}';
      assert.equal(await status('POST', '/api_tokens', unknown), isIgnored ? 201 : 400);
      assert.equal(await status('POST', '/api_tokens', '{"name":"demo","token":null}'), 201);
      assert.equal(await status('PUT', '/api_tokens/demo', '{"subscibe":[]}'), 400);
    });

    test('a token without a secret can be asked for, and one with a secret too', async () => {
      const make = (body: object) => bus.root.call('POST', '/api_tokens', { name: 'shop', ...body });
      const [bare, secret] = (await Promise.all([make({ secret: false }), make({ secret: true })])) as Record<
        string,
        string
      >[];
      assert.match(bare?.token ?? '', /^shop--[0-9a-f]{32}$/);
      assert.equal(bare?.secret, undefined);
      assert.match(secret?.secret ?? '', /^[\w-]{32}$/);
      await assert.rejects(make({ token: 'shop--0001', secret: true }), /400 .*secret must be false/);
      await assert.rejects(make({ secret: 'yes' }), /400 .*secret must be true or false/);
      await assert.rejects(make({ name: 'a'.repeat(31), secret: false }), /400 .*1 to 30 without a secret/);
      await assert.rejects(make({ name: 'a'.repeat(43), secret: true }), /400 .*1 to 42 characters/);
    });
  });
