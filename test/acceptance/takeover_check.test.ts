import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Command } from '../../harness/processes/command.ts';
import { RubyWorker } from '../../harness/redis/ruby_processes.ts';
import { RUBY_EVENT, RUBY_TOKEN, writeRubyRedis } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { clock } from '../../src/clock.ts';
import { BootError } from '../../src/errors.ts';
import { checkTakeover } from '../../src/processes/takeover_check.ts';
import { infoNumber } from '../../src/store/memory.ts';

const redis = new TestStore();
const ENV = {
  ROUTEMASTER_REDIS_PREFIX: '',
  ROUTEMASTER_CALLBACK_ALLOW: '',
  ROUTEMASTER_ROOT_KEY: '0f'.repeat(24),
  ROUTEMASTER_CLIENTS: '',
  ROUTEMASTER_COMPATIBILITY: '',
  NODE_ENV: '',
  RACK_ENV: '',
  METRIC_COLLECTION_SERVICE: 'print',
};

interface Checked {
  status: number | null;
  output: string;
}

/** Runs bin/takeover. */
async function byCommand(url: string, env: Record<string, string>): Promise<Checked> {
  const command = new Command('takeover', ['--check', url], { ...ENV, ...env });
  return { status: await command.exitCode, output: command.output };
}

/** Progress that checks in this process have told. */
const told: string[] = [];

/** Checks as bin/takeover does, but in this process, because a process takes four times the CPU. */
function inProcess(url: string, env: Record<string, string>): Promise<Checked> {
  return checkTakeover(url, (progress) => told.push(progress), { ...process.env, ...ENV, ...env }).then(
    ({ text, ready }) => ({ status: ready ? 0 : 1, output: `${text}\n` }),
    (error) => {
      if (error instanceof BootError) return { status: BootError.EXIT_CODE, output: error.message };
      throw error;
    },
  );
}

/** Runs the check, which must change nothing, and returns its status and what it printed. */
async function check(env: Record<string, string> = {}, run = inProcess): Promise<Checked> {
  const [keys, functions] = [await snapshot(redis.store), await functionsOf()];
  const checked = await run(redis.redis.url, env);
  assert.deepEqual(await snapshot(redis.store), keys, 'every key has the bytes that it had');
  assert.deepEqual(await functionsOf(), functions);
  return checked;
}

const functionsOf = () => redis.store.redis.call('FUNCTION', 'LIST');

beforeEach(async () => {
  await redis.flush();
  await writeRubyRedis(redis.store.redis);
  await redis.store.redis.hset(`subscriber:${RUBY_TOKEN}`, 'callback', 'https://8.8.8.8/events');
});

test('bin/takeover --check counts what a takeover would find, and changes nothing', async () => {
  const { status, output } = await check({}, byCommand);
  assert.equal(
    output,
    `A takeover of this Redis would find:
  1 topics, 1 subscribers, 2 clients
  3 batches of 4 events, the oldest since 2026-11-20T09:28:33.600Z

Good to know:
  - 1 batches have no job: each gets one, due at once
  - 1 entries of batches:index name no batch: they are removed
  - tokens of fewer than 16 characters work on, but can be guessed: shop

It can be taken over. Nothing was changed.
`,
  );
  assert.equal(status, 0);
});

test('names living workers and callbacks that the policy refuses, and what variables mean here', async (t) => {
  const worker = new RubyWorker(redis.store.redis);
  t.after(() => worker.stop());
  await worker.heartbeat();
  await redis.store.redis.hset(`subscriber:${RUBY_TOKEN}`, 'callback', 'https://10.1.2.3/secret-path');
  const env = { ROUTEMASTER_WORKER_THREADS: '5', DATADOG_API_KEY: 'x', METRIC_COLLECTION_SERVICE: '' };
  const { status, output } = await check(env, byCommand);
  assert.equal(status, 1);
  assert.match(
    output,
    /Before it:\n {2}- 1 Ruby workers run \(heard of \d+ s ago\): stop them, and wait 30 s/,
  );
  assert.match(
    output,
    /the callback of demo at https:\/\/10\.1\.2\.3 would be refused: its host is at an address/,
  );
  assert.match(output, /ROUTEMASTER_WORKER_THREADS means deliveries under way/);
  assert.match(output, /DATADOG_API_KEY of the Ruby Routemaster is set, and has no effect/);
  assert.match(output, /METRIC_COLLECTION_SERVICE is not set/);
  assert.doesNotMatch(output, new RegExp(`${RUBY_TOKEN}|secret-path|can be taken over`));
  const allowed = await check({ ROUTEMASTER_CALLBACK_ALLOW: '10.0.0.0/8' });
  assert.doesNotMatch(allowed.output, /would be refused/);
});

test('takes a callback with credentials, which deliveries leave out', async () => {
  await redis.store.redis.hset(`subscriber:${RUBY_TOKEN}`, 'callback', 'https://user:pw@8.8.8.8/events');
  const { status, output } = await check();
  assert.deepEqual([status, /It can be taken over/.test(output)], [0, true], output);
});

test('tells batches of a takeover that was cut off from entries without a batch', async () => {
  const names = ['vHFAAGBX0UExbPAKqIDl', 'aaaaaaaaaaaaaaaaaaaB'];
  await redis.store.run('sweep_batches', {
    where: 'ruby_batch',
    names: names.map((name) => Buffer.from(name)),
  });
  const { status, output } = await check();
  assert.match(output, /\n {2}1 batches of 1 events/);
  assert.match(
    output,
    /- 2 more batches were taken over by a start that was cut off; the next start goes on/,
  );
  assert.match(output, /- 1 entries of batches:index name no batch/);
  assert.equal(status, 0);
});

test('passes over a client that has no callback, as its only subscription was refused', async () => {
  await redis.store.redis.sadd('subscribers', 'publisher--42');
  const { status, output } = await check();
  assert.deepEqual([status, /It can be taken over/.test(output)], [0, true], output);
});

test('asks for memory where the takeover would begin to drop batches, as each needs some more', async () => {
  const { redis: commands } = redis.store;
  const pipeline = commands.pipeline();
  for (let number = 0; number < 10_000; number++)
    pipeline.rpush(
      `batches:${String(number).padStart(20, '0')}`,
      RUBY_TOKEN,
      1_795_166_914_000,
      0,
      RUBY_EVENT,
    );
  await pipeline.exec();
  const used = infoNumber(await commands.info('memory'), 'used_memory');
  const limits = { ROUTEMASTER_REDIS_MIN_FREE: '1000000' };
  // These batches have neither jobs nor entries in `batches:index`, which they get at the takeover too.
  const tight = await check({ ...limits, ROUTEMASTER_REDIS_MAX_MEM: String(used + 6_000_000) });
  assert.equal(tight.status, 1, tight.output);
  assert.match(
    tight.output,
    /Redis stores \d+\.\d MB, and needs up to 6\.\d MB more\. Above .* raise maxmemory/,
  );
  const roomy = await check({ ...limits, ROUTEMASTER_REDIS_MAX_MEM: String(used + 9_000_000) });
  assert.deepEqual([roomy.status, /It can be taken over/.test(roomy.output)], [0, true], roomy.output);
});

test('tells how far it is, also if the index of batches lacks some', async (t) => {
  let nowMs = 0;
  t.mock.method(clock, 'monotonicMs', () => (nowMs += 60_000));
  await redis.store.redis.del('batches:index');
  told.length = 0;
  await check();
  assert.equal(told[0], '1 of 1 callbacks checked');
  assert.match(told.at(-1) ?? '', /^\d+ batches checked$/);
});

test('says which command the ACL forbids', async (t) => {
  const { redis: commands } = redis.store;
  t.after(() => commands.call('ACL', 'SETUSER', 'default', '+@all'));
  await commands.call('ACL', 'SETUSER', 'default', '-zscan', '-sscan', '-hvals', '-zcard');
  const { status, output } = await check();
  assert.deepEqual([status, /^Redis says: NOPERM .*docs\/operating\.md/.test(output)], [78, true], output);
});

const PRODUCTION = { NODE_ENV: 'production' };

for (const [title, env, refusal] of [
  ['a placeholder', { ROUTEMASTER_ROOT_KEY: 'CHANGE-ME' }, /ROUTEMASTER_ROOT_KEY looks like a placeholder/],
  ['a short key', { ROUTEMASTER_ROOT_KEY: 'short' }, /ROUTEMASTER_ROOT_KEY has fewer than 16 characters/],
  ['no key', { ROUTEMASTER_ROOT_KEY: '' }, /ROUTEMASTER_ROOT_KEY must be set: the key that creates clients/],
  ['a short viewer key', { ROUTEMASTER_VIEWER_KEY: 'short' }, /ROUTEMASTER_VIEWER_KEY has fewer than 16/],
  ['nobody to say https', { ROUTEMASTER_TRUSTED_PROXIES: '0' }, /ROUTEMASTER_TRUSTED_PROXIES is 0/],
  [
    'a short token out of compatibility mode',
    { ROUTEMASTER_CLIENTS: 'short', ROUTEMASTER_COMPATIBILITY: 'none' },
    /1 tokens of ROUTEMASTER_CLIENTS have fewer than 16 characters/,
  ],
] as [title: string, env: Record<string, string>, refusal: RegExp][])
  test(`production with ${title} is to be mended first, because the bus would refuse to start`, async () => {
    const { status, output } = await check({ ...PRODUCTION, ...env });
    assert.match(
      output,
      new RegExp(`Before it:\n  - the bus would not start with this environment: .*${refusal.source}`),
    );
    assert.doesNotMatch(output, /can be taken over/);
    assert.equal(status, 1);
  });

test('RACK_ENV=production asks for a strong key too; elsewhere a short one will do', async () => {
  const short = { ROUTEMASTER_ROOT_KEY: 'short' };
  const ruby = await check({ ...short, RACK_ENV: 'production' });
  assert.deepEqual([ruby.status, /would not start/.test(ruby.output)], [1, true], ruby.output);
  for (const env of [PRODUCTION, short, { ROUTEMASTER_CLIENTS: 'short', ...PRODUCTION }]) {
    const { status, output } = await check(env);
    assert.deepEqual([status, /would not start/.test(output)], [0, false], output);
  }
});

test('without a root key outside production, says that the bus needs one', async () => {
  const { status, output } = await check({ ROUTEMASTER_ROOT_KEY: '' });
  assert.match(
    output,
    /Good to know:\n(?: .*\n)* {2}- ROUTEMASTER_ROOT_KEY is not set here: the bus does not start without it/,
  );
  assert.equal(status, 0);
});

test('finds no bus in a Redis that is empty, has a bus under another prefix, or has only keys of others', async () => {
  const { redis: commands } = redis.store;
  const prefixed = await check({ ROUTEMASTER_REDIS_PREFIX: 'shop:' });
  assert.equal(
    prefixed.output,
    'There is no bus to take over: database 0 of this Redis has none of the keys shop:topics, shop:subscribers, ' +
      'shop:api_tokens:by_token, shop:batches:index, shop:workers of a Ruby Routemaster. Look at the host and the ' +
      'database in the URL of Redis, and at ROUTEMASTER_REDIS_PREFIX. Nothing was changed.',
  );
  assert.equal(prefixed.status, 78);
  await redis.flush();
  for (const key of [undefined, 'sessions']) {
    if (key) await commands.set(key, 'of another program');
    const { status, output } = await check();
    assert.deepEqual([status, /^There is no bus to take over: /.test(output)], [78, true], output);
  }
});

test('takes any key that every Ruby Routemaster has sooner or later for a bus', async () => {
  const { redis: commands } = redis.store;
  for (const key of ['topics', 'subscribers', 'api_tokens:by_token', 'batches:index', 'workers']) {
    await redis.flush();
    await writeRubyRedis(commands);
    await commands.del((await commands.keys('*')).filter((each) => each !== key));
    const { output } = await check();
    assert.match(output, /^A takeover of this Redis would find:/, key);
  }
});

test('says so if there is nothing to take over, no Redis, or several partitions', async () => {
  await redis.store.redis.set('schema', '2');
  const { status, output } = await check();
  assert.deepEqual([status, /^There is nothing to take over.*layout 2/.test(output)], [0, true], output);
  const away = await byCommand('redis://127.0.0.1:1', {});
  assert.equal(away.status, 78);
  assert.match(away.output, /^Redis cannot be reached: /);
  const several = await check({ ROUTEMASTER_PARTITIONS: '4' });
  assert.equal(several.status, 78);
  assert.match(several.output, /^A Ruby Routemaster is taken over by a bus with one partition/);
});
