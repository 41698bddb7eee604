import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runs } from '../../harness/processes/processes.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { until } from '../../harness/until.ts';

test('a private Redis answers on a unix socket of its own, and leaves nothing behind', async () => {
  const redis = await PrivateRedis.start();
  const { pid, dir, url, socketPath } = redis;
  assert.equal(url, `unix://${socketPath}`);
  assert.equal((await stat(socketPath ?? '')).mode & 0o777, 0o700);
  assert.equal(await callRedis(url, 'SET', 'a', 'b'), 'OK');
  assert.equal(await callRedis(url, 'GET', 'a'), 'b');
  assert.deepEqual(await callRedis(url, 'CONFIG', 'GET', 'maxmemory-policy'), [
    'maxmemory-policy',
    'noeviction',
  ]);
  await redis.stop();
  await redis.stop();
  assert.ok(!runs(pid));
  assert.ok(!existsSync(dir));
});

test('two run side by side, with the configuration asked for', async () => {
  const [small, other] = await Promise.all([
    PrivateRedis.start({ config: { maxmemory: '20mb' } }),
    PrivateRedis.start(),
  ]);
  assert.deepEqual(await callRedis(small.url, 'CONFIG', 'GET', 'maxmemory'), ['maxmemory', '20971520']);
  assert.deepEqual(await callRedis(other.url, 'CONFIG', 'GET', 'maxmemory'), ['maxmemory', '0']);
  await Promise.all([small.stop(), other.stop()]);
});

test('a port, with a password, when a port is asked for or the path is too long for a socket', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'routemaster-long-'));
  const dir = join(parent, 'x'.repeat(120));
  await mkdir(dir);
  const redis = await PrivateRedis.start({ dir, password: 'secret' });
  assert.match(redis.url, /^redis:\/\/:secret@127\.0\.0\.1:\d+$/);
  assert.equal(await callRedis(redis.url, 'PING'), 'PONG');
  await assert.rejects(callRedis(redis.url.replace(':secret@', ''), 'PING'), /NOAUTH/);
  await redis.stop();
  await rm(parent, { recursive: true });
});

test('after SIGKILL and a restart it answers at the same address, with what its AOF holds', async () => {
  const redis = await PrivateRedis.start({ port: 0, config: { appendonly: 'yes', appendfsync: 'always' } });
  const { pid, url } = redis;
  await callRedis(url, 'SET', 'a', 'kept');
  await redis.kill('SIGKILL');
  assert.throws(() => redis.pid, /does not run/);
  await redis.restart();
  assert.notEqual(redis.pid, pid);
  assert.equal(redis.url, url);
  assert.equal(await callRedis(url, 'GET', 'a'), 'kept');
  await redis.stop();
});

test('a configuration that Redis refuses is reported in the words of Redis', async () => {
  await assert.rejects(PrivateRedis.start({ config: { 'no-such-setting': '1' } }), /Bad directive/);
});

test('when the process that started it is killed, Redis and its temporary files are removed', async () => {
  const module = new URL('../../harness/redis/private_redis.ts', import.meta.url);
  const source = `const { PrivateRedis } = await import(${JSON.stringify(module.href)});
    const { pid, dir } = await PrivateRedis.start();
    console.log(JSON.stringify({ pid, dir }));
    setInterval(() => {}, 1_000);`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  parent.stdout.on('data', (chunk) => {
    printed += chunk;
  });
  await until(() => printed.endsWith('\n'));
  const { pid, dir } = JSON.parse(printed);
  assert.ok(runs(pid));
  parent.kill('SIGKILL');
  await until(() => !runs(pid) && !existsSync(dir));
});
