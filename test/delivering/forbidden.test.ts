import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { RECORD } from '../../harness/scripts/worker_calls.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { StorageForbidden } from '../../src/errors.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';
import type { Finding } from '../../src/maintenance/sweep/finding.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const WORKERS = ['w1', 'w2', 'w3', 'w4', 'w5', 'w6', 'w7', 'w8'];

const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);

/** Acquires and acknowledges all jobs of a queue. Returns the texts of the events. */
async function deliverAll(queue: Queue): Promise<string[]> {
  const events: string[] = [];
  for (;;) {
    const { grants } = await queue.acquire(WORKERS);
    if (grants.length === 0) return events;
    for (const grant of grants) {
      events.push(...(grant.batch?.pieces ?? []).flatMap((piece) => String(piece).split(',')));
      await queue.ack({ grant, heal: 0, tookMs: 0 });
    }
  }
}

beforeEach(async () => {
  await permit('+@all');
  await redis.flush();
  await bus.subscribe('proven', { topics: ['a'], max: 2 });
  await bus.subscribe('new', { topics: ['b'], max: 2, proven: false });
  await bus.subscribe('ordered', { topics: ['c'], max: 1, ordered: 1 });
  await bus.subscribe('cut', { topics: ['d'], timeout: 0 });
  for (const topic of ['a', 'b', 'c', 'd'])
    await bus.publish(
      topic,
      topic,
      [1, 2, 3, 4].map((i) => `{"id":"${topic}${i}"}`),
    );
  await bus.subscribe('cut', { topics: ['d'], timeout: 0, max: 3 });
});

for (const command of ['hget', 'hmget', 'lpush', 'lrange', 'lset', 'ltrim', 'rpush', 'sadd', 'zrem'])
  test(`jobs that acquire took out of the queue when the ACL forbade ${command} come back with a sweep when it is permitted`, async () => {
    const queue = new Queue(redis.store, 'main', SETTINGS);
    await permit(`-${command}`);
    for (let i = 0; i < 3; i++) await assert.rejects(queue.acquire(WORKERS), StorageForbidden);
    await permit('+@all');
    const early = await deliverAll(queue);
    await sweep(redis.store);
    const events = new Set([...early, ...(await deliverAll(queue))]);
    assert.deepEqual(
      [...events].toSorted(),
      ['a', 'b', 'c', 'd'].flatMap((topic) => [1, 2, 3, 4].map((i) => `{"id":"${topic}${i}"}`)),
    );
    await assertConsistent(redis.store);
  });

test('what was delivered is acknowledged although the ACL forbids a command of acquire', async () => {
  const queue = new Queue(redis.store, 'main', SETTINGS);
  const [grant = assert.fail()] = (await queue.acquire(['w1'])).grants;
  await permit('-lrange');
  await assert.rejects(queue.acquire(['w2']), StorageForbidden);
  assert.equal((await queue.ack({ grant, heal: 0, tookMs: 0, record: RECORD })).held, true);
});

test('no job is taken after the ACL has forbidden to make a dead letter', async () => {
  const queue = new Queue(redis.store, 'main', SETTINGS);
  const [grant = assert.fail()] = (await queue.acquire(['w1'])).grants;
  await permit('-rename');
  const attempt = { atMs: 1, durationMs: 1, reason: 'HTTP 500' };
  const burial = { damage: 0, throttleMs: 0, attempt, reason: 'max_attempts' } as const;
  await assert.rejects(queue.bury(grant, burial), StorageForbidden);
  await assert.rejects(queue.acquire(['w2']), StorageForbidden);
  await permit('+@all');
  assert.equal((await queue.acquire(['w2'])).grants.length, 1);
});

test('due jobs stay scheduled after the ACL has forbidden to promote one', async () => {
  const { redis: commands, keys } = redis.store;
  const scheduled = keys.jobs_scheduled('main');
  await promoteDue(redis.store);
  await permit('-lpush');
  for (const due of ['job1', 'job2']) {
    await commands.zadd(scheduled, 1, due);
    await assert.rejects(promoteDue(redis.store), StorageForbidden);
  }
  assert.deepEqual(await commands.zrange(scheduled, 0, '-1'), ['job2']);
});

test('a sweep takes no batch for malformed that the ACL forbids it to read', async () => {
  await permit('-lrange');
  const findings: Finding[] = [];
  await assert.rejects(sweep(redis.store, { findings }), StorageForbidden);
  assert.deepEqual(findings, []);
  await permit('+@all');
  await assertConsistent(redis.store);
});
