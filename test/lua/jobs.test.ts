import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { packNamed } from '../../harness/scripts/names.ts';
import { EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { until } from '../../harness/until.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const LEASE_MS = 30_000;

/** Adds a worker whose last sign of life was `ms` ago, by Redis's clock. */
async function silentFor(worker: string, ms: number): Promise<void> {
  await bus.store.redis.hset('workers', worker, (await bus.nowMs()) - ms);
}

const workers = async () => Object.keys(await bus.store.redis.hgetall('workers')).sort();

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('run_job', () => {
  test('makes a scheduled job instant, behind the others', async () => {
    for (const name of ['monitor', 'scrub']) await bus.enqueue(name);
    await bus.acquire(['x1'], { q: 'aux' });
    await bus.nack('x1', 'monitor', { q: 'aux', delayMs: 10_000 });
    assert.equal(await bus.runJob('monitor', 'aux'), 'ok');
    const expected = { ...EMPTY_QUEUE, index: ['monitor', 'scrub'], instant: ['scrub', 'monitor'] };
    assert.deepEqual((await bus.state()).aux, { ...expected, pendingIndex: ['x1'] });
  });

  test('changes nothing if the job is in another state, or nowhere', async () => {
    await bus.enqueue('monitor');
    for (const outcome of ['job_not_scheduled', 'job_not_found'] as const) {
      const before = await snapshot(bus.store);
      const name = outcome === 'job_not_found' ? 'scrub' : 'monitor';
      assert.equal(await bus.runJob(name, 'aux'), outcome);
      assert.deepEqual(await snapshot(bus.store), before);
    }
    await bus.acquire(['x1'], { q: 'aux' });
    assert.equal(await bus.runJob('monitor', 'aux'), 'job_not_scheduled');
  });
});

describe('enqueue', () => {
  test('adds an instant job behind the others', async () => {
    assert.equal(await bus.enqueue('monitor'), true);
    assert.equal(await bus.enqueue('scrub'), true);
    const instant = ['monitor', 'scrub'];
    assert.deepEqual((await bus.state()).aux, { ...EMPTY_QUEUE, index: instant, instant });
  });

  for (const state of ['instant', 'pending', 'scheduled']) {
    test(`changes nothing when the job is ${state} already`, async () => {
      await bus.enqueue('scrub');
      if (state !== 'instant') await bus.acquire(['x1'], { q: 'aux' });
      if (state === 'scheduled') await bus.nack('x1', 'scrub', { q: 'aux', delayMs: 10_000 });
      const before = await snapshot(bus.store);
      assert.equal(await bus.enqueue('scrub', LEASE_MS), false);
      assert.deepEqual(await snapshot(bus.store), before);
    });
  }

  test('takes the job over from a dead worker', async () => {
    await bus.enqueue('scrub');
    await bus.acquire(['x1'], { q: 'aux' });
    await bus.enqueue('monitor');
    await silentFor('x1', LEASE_MS + 1);
    assert.equal(await bus.enqueue('scrub', LEASE_MS), true);
    assert.deepEqual((await bus.state()).aux, {
      ...EMPTY_QUEUE,
      index: ['monitor', 'scrub'],
      instant: ['scrub', 'monitor'],
      pendingIndex: ['x1'],
    });
    assert.equal((await bus.ack('x1', 'scrub', { q: 'aux' })).held, false);
  });

  test('takes it over from an unknown worker', async () => {
    await bus.enqueue('scrub');
    await bus.acquire(['x1'], { q: 'aux' });
    await bus.store.redis.hdel('workers', 'x1');
    assert.equal(await bus.enqueue('scrub', LEASE_MS), true);
  });

  test('makes a job instant that an interrupted script has left in no list', async () => {
    await bus.enqueue('sweep');
    await bus.store.redis.del(bus.store.keys.jobs_instant('aux'));
    assert.equal(await bus.enqueue('sweep'), true);
    assert.deepEqual((await bus.state()).aux, { ...EMPTY_QUEUE, index: ['sweep'], instant: ['sweep'] });
  });

  test('leaves other jobs of dead workers to the scrub', async () => {
    await bus.enqueue('monitor');
    await bus.acquire(['x1'], { q: 'aux' });
    await silentFor('x1', LEASE_MS + 1);
    assert.equal(await bus.enqueue('scrub', LEASE_MS), true);
    assert.deepEqual((await bus.state()).aux.pending, { x1: ['monitor'] });
  });
});

describe('schedule', () => {
  test('makes due jobs instant in the order of their deadlines, and returns when the next is due', async () => {
    const { redis: commands } = bus.store;
    for (const [token, timeout] of Object.entries({ alice: 60_000, bob: 40_000, carol: 90_000 })) {
      await bus.subscribe(token, { topics: [token], timeout });
      await bus.publish(token, token, ['e']);
    }
    assert.deepEqual((await bus.state()).main.scheduled, ['bob1', 'alice1', 'carol1']);
    const now = await bus.nowMs();
    await commands.zadd('jobs:scheduled:main', now, packNamed('alice1'), now - 1, packNamed('bob1'));
    const { promoted, nextDueMs } = await bus.schedule();
    assert.equal(promoted, 2);
    assert.ok(nextDueMs > 80_000 && nextDueMs <= 90_000);
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant, main.scheduled], [['bob1', 'alice1'], ['carol1']]);
    assert.deepEqual(current, { alice: ['alice1'], bob: ['bob1'], carol: ['carol1'] }, 'batches stay open');
  });

  test('promotes jobs of all queues up to the given number, and returns 0 if due jobs remain', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.enqueue('monitor');
    await bus.acquire(['x1'], { q: 'aux' });
    for (const i of [1, 2, 3]) await bus.nack(`w${i}`, `a${i}`, { delayMs: 1 });
    await bus.nack('x1', 'monitor', { q: 'aux', delayMs: 1 });
    const dueMs = Number((await bus.store.redis.zrange('jobs:scheduled:aux', '0', '0', 'WITHSCORES'))[1]);
    await until(async () => (await bus.nowMs()) >= dueMs);
    assert.deepEqual(await bus.schedule(2), { promoted: 2, nextDueMs: 0 });
    assert.deepEqual(await bus.schedule(1), { promoted: 1, nextDueMs: 0 });
    assert.deepEqual(await bus.schedule(2), { promoted: 1, nextDueMs: -1 });
    const { main, aux } = await bus.state();
    assert.deepEqual([main.instant.length, main.scheduled], [3, []]);
    assert.deepEqual([aux.instant, aux.scheduled], [['monitor'], []]);
  });

  test('returns -1 when no job is scheduled', async () => {
    assert.deepEqual(await bus.schedule(), { promoted: 0, nextDueMs: -1 });
  });
});

describe('scrub', () => {
  /** Adds three workers with a sign of life just now: w1 and w2 deliver, and x1 has an aux job. */
  async function busyWorkers(): Promise<void> {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    await bus.acquire(['w1', 'w2']);
    await bus.enqueue('monitor');
    await bus.acquire(['x1'], { q: 'aux' });
  }

  test('gives back the jobs of workers that are silent for longer than the lease, before the others', async () => {
    await busyWorkers();
    await silentFor('w1', LEASE_MS + 1);
    await silentFor('x1', LEASE_MS + 1);
    await silentFor('w2', LEASE_MS - 5000);
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 2, jobs: [1, 1] });
    const { main, aux, batches, current } = await bus.state();
    assert.deepEqual(main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'a2', 'a3'],
      instant: ['a1', 'a3'],
      pending: { w2: ['a2'] },
      pendingIndex: ['w2'],
    });
    assert.deepEqual(aux, { ...EMPTY_QUEUE, index: ['monitor'], instant: ['monitor'] });
    assert.deepEqual(await workers(), ['w2']);
    assert.deepEqual(
      [batches.a1?.attempts, current],
      [1, {}],
      'the attempt was made, and the batch stays closed',
    );
  });

  test('changes nothing while all workers send heartbeats', async () => {
    await busyWorkers();
    await bus.scrub(LEASE_MS);
    const before = await snapshot(bus.store);
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 0, jobs: [0, 0] });
    assert.deepEqual(await snapshot(bus.store), before);
  });

  test('uses the clock of Redis, as heartbeats do', async () => {
    await busyWorkers();
    for (const worker of ['w1', 'x1']) await silentFor(worker, LEASE_MS - 5000);
    await silentFor('w2', LEASE_MS + 1);
    const earliest = await bus.nowMs();
    assert.deepEqual(await bus.heartbeat(['w1', 'x1']), []);
    const heard = Number(await bus.store.redis.hget('workers', 'w1'));
    assert.ok(earliest <= heard && heard <= (await bus.nowMs()));
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 1, jobs: [1, 0] });
    assert.deepEqual(await workers(), ['w1', 'x1']);
  });

  test('gives back the job of an unknown worker', async () => {
    await busyWorkers();
    await bus.store.redis.hdel('workers', 'w1');
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 0, jobs: [1, 0] });
    assert.deepEqual((await bus.state()).main.instant, ['a1', 'a3']);
  });

  test('deletes workers that died idle', async () => {
    await bus.acquire(['w1']);
    await silentFor('w1', LEASE_MS + 1);
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 1, jobs: [0, 0] });
    assert.deepEqual(await workers(), []);
  });
});

describe('retire', () => {
  test('deletes workers that hold no job, and leaves the others to the scrub', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.ack('w1', 'a1');
    assert.equal(await bus.store.run('retire', { q: 'main', workers: ['w1', 'w2', 'w3', 'w4'] }), 2);
    assert.deepEqual(await workers(), ['w2']);
    assert.deepEqual((await bus.state()).main.pendingIndex, ['w2']);
  });
});
