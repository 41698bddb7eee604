import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { prepareDataDirectory } from '../../harness/local/data_directory.ts';
import { type OwnRedis, startOwnRedis } from '../../harness/local/own_redis.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { BootError } from '../../src/errors.ts';

/** The id of no process: Linux has smaller ones. */
const NO_PID = 2 ** 31 - 1;

async function inDirectory(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'routemaster-own-'));
  try {
    await run(dir);
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** Leaves a lock as of a launcher with this process id that was killed while it started. */
async function leaveLock(dir: string, pid: number): Promise<void> {
  await mkdir(join(dir, 'starting.lock', `${pid}.left`), { recursive: true });
}

async function assertOneStarts(starts: Promise<OwnRedis>[]): Promise<void> {
  const ended = await Promise.allSettled(starts);
  const started = ended.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  await Promise.all(started.map((each) => each.stop()));
  assert.equal(started.length, 1);
  assert.ok(ended.some((each) => each.status === 'rejected' && each.reason instanceof BootError));
}

test('data written before a stop is there after the next start', () =>
  inDirectory(async (dir) => {
    const first = await startOwnRedis(dir);
    await callRedis(first.url, 'SET', 'a', 'kept');
    await first.stop();
    await first.gone;
    const second = await startOwnRedis(dir);
    assert.equal(second.adopted, false);
    assert.equal(await callRedis(second.url, 'GET', 'a'), 'kept');
    await second.stop();
  }));

test('two launchers cannot have the same data', () =>
  inDirectory(async (dir) => {
    const first = await startOwnRedis(dir);
    await assert.rejects(startOwnRedis(dir), BootError);
    await first.stop();
  }));

test('of two launchers that start at once, one gets the data', () =>
  inDirectory(async (dir) => {
    await assertOneStarts([startOwnRedis(dir), startOwnRedis(dir)]);
  }));

test('of two launchers that find the lock of a dead one, only one gets the data', (t) =>
  inDirectory(async (dir) => {
    await leaveLock(dir, NO_PID);
    const starts: Promise<OwnRedis>[] = [];
    // The other one starts when this one has found that the process is dead, and has not removed the lock yet.
    const kill = process.kill.bind(process);
    const late = (pid: number, signal?: number) => {
      starts.push(startOwnRedis(dir));
      return kill(pid, signal);
    };
    t.mock.method(process, 'kill', late, { times: 1 });
    starts.push(startOwnRedis(dir));
    assert.equal(starts.length, 2);
    await assertOneStarts(starts);
  }));

for (const [which, pid] of [
  ['is gone', NO_PID],
  ['is that of the next launcher, as in a container', process.pid],
] as const) {
  test(`a launcher that was killed while it started leaves the data to others, if its id ${which}`, () =>
    inDirectory(async (dir) => {
      await leaveLock(dir, pid);
      const own = await startOwnRedis(dir);
      await own.stop();
      assert.ok(!(await readdir(dir)).includes('starting.lock'));
    }));
}

test('the lock of a launcher that was killed does not make a directory one of others', () =>
  inDirectory(async (dir) => {
    await leaveLock(dir, NO_PID);
    await mkdir(join(dir, `starting.lock.${NO_PID}.left`));
    await mkdir(join(dir, 'demo'));
    await leaveLock(join(dir, 'demo'), NO_PID);
    await chmod(dir, 0o755);
    const umask = process.umask();
    prepareDataDirectory(dir);
    process.umask(umask);
    assert.equal((await stat(dir)).mode & 0o777, 0o700);
  }));

test('a Redis that a crashed launcher left running is taken over, and shut down in the end', () =>
  inDirectory(async (dir) => {
    const left = await PrivateRedis.start({ dir, config: { appendonly: 'yes' } });
    await writeFile(join(dir, 'redis.url'), left.url);
    await callRedis(left.url, 'SET', 'a', 'kept');
    const own = await startOwnRedis(dir);
    assert.equal(own.adopted, true);
    assert.equal(await callRedis(own.url, 'GET', 'a'), 'kept');
    await own.stop();
    await assert.rejects(callRedis(left.url, 'PING'));
    await left.stop();
  }));

test('a file that names a Redis of another application is ignored', () =>
  inDirectory(async (dir) => {
    const other = await PrivateRedis.start();
    await writeFile(join(dir, 'redis.url'), other.url);
    const own = await startOwnRedis(dir);
    assert.notEqual(own.url, other.url);
    await own.stop();
    assert.equal(await callRedis(other.url, 'PING'), 'PONG');
    await other.stop();
  }));
