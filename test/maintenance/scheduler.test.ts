import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type CapturedLog, capturedLog } from '../../harness/captured_log.ts';
import { loadScripts, scriptCalls } from '../../harness/redis/script_calls.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { nthWord, packNamed } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import type { AgendaKind } from '../../src/flow/agenda.ts';
import { type PublishDue, Scheduler } from '../../src/maintenance/scheduler.ts';
import { Listener } from '../../src/store/listener.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let recorded: CapturedLog;
let wakeups: Wakeups;
let scheduler: Scheduler;

async function start(
  maxSleepMs = 600_000,
  agenda: Partial<Record<AgendaKind, PublishDue>> = {},
): Promise<void> {
  scheduler = new Scheduler({ partition: redis.store, wakeups, agenda, maxSleepMs, log: recorded.log });
  scheduler.start();
  await until(async () => Number((await redis.store.redis.pubsub('NUMSUB', 'wake:due'))[1]) > 0);
}
const instant = (name: string) =>
  until(async () => (await redis.store.redis.lpos('jobs:instant:main', packNamed(name))) !== null, {
    everyMs: 2,
  });

/** Puts scheduled jobs, each due at `dueMs` of its index. */
async function scheduleAll(jobs: number, dueMs: (index: number) => Promise<number>): Promise<void> {
  await bus.subscribe('alice', { max: 1 });
  // One call opens 300 batches at most.
  for (let at = 0; at < jobs; at += 300)
    await bus.publish(nthWord(at / 300), 'widgets', Array(Math.min(300, jobs - at)).fill('e'));
  const { redis: commands } = redis.store;
  const instant = await commands.lrangeBuffer('jobs:instant:main', 0, -1);
  const due = await Promise.all(instant.map(async (job, index) => [await dueMs(index), job] as const));
  await commands.del('jobs:instant:main');
  await commands.zadd('jobs:scheduled:main', ...due.flat());
}

beforeEach(async () => {
  await redis.flush();
  await loadScripts(redis.store);
  recorded = capturedLog();
  wakeups = new Wakeups(new Listener(redis.store.redis), redis.store.keys);
});
afterEach(async () => {
  await scheduler.stop();
  wakeups.close();
  await assertConsistent(redis.store);
});

describe('the scheduler', () => {
  test('promotes at once the jobs that fell due while no scheduler ran', async () => {
    await bus.subscribe('alice', { timeout: 60_000 });
    await bus.publish('a', 'widgets', ['e1']);
    await redis.store.redis.zadd('jobs:scheduled:main', 1, packNamed('a1'));
    await start();
    await instant('a1');
  });

  test('promotes a job at its deadline, and not before', async () => {
    await start();
    await bus.subscribe('alice', { timeout: 60 });
    await bus.publish('a', 'widgets', ['e1']);
    const createdMs = await bus.createdMs('a1');
    await instant('a1');
    const lateMs = (await bus.nowMs()) - createdMs - 60;
    assert.ok(lateMs >= 0, `${lateMs} ms`);
  });

  test('wakes up for a job that is due before the one it sleeps for', async () => {
    await bus.subscribe('alice', { timeout: 600_000 });
    await bus.subscribe('bob', { topics: ['gadgets'], timeout: 30 });
    await bus.publish('a', 'widgets', ['e1']);
    await start();
    await bus.publish('b', 'gadgets', ['e2']);
    await instant('b1');
    assert.deepEqual((await bus.state()).main.scheduled, ['a1']);
  });

  test('promotes more jobs than one call takes', async () => {
    await scheduleAll(1100, async () => 1);
    await start();
    await until(async () => (await redis.store.redis.llen('jobs:instant:main')) === 1100);
  });

  test('sleeps while nothing is due: it calls Redis a few times, however long it waits', async () => {
    await bus.subscribe('alice', { timeout: 150 });
    await start();
    await until(async () => (await scriptCalls(redis.store)) > 0);
    const before = await scriptCalls(redis.store);
    await bus.publish('a', 'widgets', ['e1']);
    await instant('a1');
    // One call publishes. The scheduler makes one at the announcement, one at the deadline, and perhaps one before it,
    // as a timer may fire up to a ms early.
    assert.ok((await scriptCalls(redis.store)) - before <= 4);
  });

  test('looks by itself at an interval, as an announcement may be lost', async () => {
    await bus.subscribe('alice', { timeout: 600_000 });
    await bus.publish('a', 'widgets', ['e1']);
    await start(20);
    await redis.store.redis.zadd('jobs:scheduled:main', 1, packNamed('a1'));
    await instant('a1');
  });

  test('publishes what is due, again and again until nothing is, and after a failure', async () => {
    const { redis: commands } = redis.store;
    let calls = 0;
    await start(600_000, {
      delayed: async () => {
        if (++calls === 1) throw new Error('not now');
        await commands.zpopmin('delayed:topics');
      },
    });
    await commands.zadd('delayed:topics', 1, 'a', 2, 'b', (await bus.nowMs()) + 40, 'c');
    await commands.publish('wake:due', '');
    await until(async () => (await commands.zcard('delayed:topics')) === 0);
    assert.equal(calls, 4);
    assert.ok(recorded.says(/cannot publish what is due; trying again/));
  });

  test('promotes jobs while it publishes, and while publishing fails', async () => {
    const { redis: commands } = redis.store;
    await commands.zadd('triggers:due', 1, 'a', 1, 'b');
    const fail = () => Promise.reject(new Error('never'));
    await start(600_000, { triggers: fail, joins: fail });
    await bus.subscribe('alice', { timeout: 30 });
    await bus.publish('a', 'widgets', ['e1']);
    await instant('a1');
    await commands.del('triggers:due');
  });

  test('stops at once, asleep or not', async () => {
    await start();
    const startMs = performance.now();
    await scheduler.stop();
    assert.ok(performance.now() - startMs < 20_000, 'it does not sleep for its ten minutes');
  });
});

test('deadlines that are close to each other share a call', async () => {
  const JOBS = 3000;
  await scheduleAll(JOBS, async (i) => (await bus.nowMs()) + 50 + i / 20);
  const before = await scriptCalls(redis.store);
  await start();
  await until(async () => (await redis.store.redis.llen('jobs:instant:main')) === JOBS);
  const calls = (await scriptCalls(redis.store)) - before;
  assert.ok(calls < JOBS / 10, `${calls} calls for ${JOBS} jobs`);
});

test('while Redis is away it keeps trying, and promotes when it is back', async () => {
  await start(20);
  await redis.redis.kill();
  await until(() => recorded.says(/cannot promote jobs; trying again/));
  await redis.redis.restart();
  await until(() => redis.store.redis.ping());
  await bus.subscribe('alice', { timeout: 1 });
  await bus.publish('a', 'widgets', ['e1']);
  await instant('a1');
});
