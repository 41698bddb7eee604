import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import type { WorkerKind } from '../../src/delivering/queue.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

const acquire = async (worker: string, kind: WorkerKind = 'regular') =>
  (await bus.acquire([worker], { kind })).grants.map(({ job }) => job);
const history = async (name: string) => {
  const { redis: commands, keys } = redis.store;
  return (await commands.lrange(keys.attempts(longName(name)), 0, -1)).map((each) => JSON.parse(each));
};
const suspects = async () => (await bus.state()).lanes.suspects;

/** A worker takes the job and dies. */
async function dieOfJob(worker: string, job: string): Promise<void> {
  assert.deepEqual(await acquire(worker), [job]);
  await bus.scrub(-1);
}

/** Makes a suspect: the batch a1 of two events, which two workers held when they died. */
async function suspect(): Promise<void> {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await dieOfJob('w1', 'a1');
  await dieOfJob('w2', 'a1');
}

beforeEach(() => redis.flush());
afterEach(async () => {
  await assertConsistent(redis.store);
  await assertNothingToSweep(redis.store);
});

describe('a batch of which two workers died', () => {
  test('has both deaths in its history', async () => {
    const fromMs = await bus.nowMs();
    await suspect();
    const notes = await history('a1');
    for (const { at, duration_ms } of notes) {
      assert.ok(at >= fromMs && duration_ms >= 0);
      assert.ok(at + duration_ms <= (await bus.nowMs()));
    }
    const note = { status: null, reason: 'its worker died', answer: null };
    assert.deepEqual(
      notes.map(({ at: _, duration_ms: __, ...rest }) => rest),
      [note, note],
    );
  });

  test('is given to a quarantine alone, as its third attempt', async () => {
    await suspect();
    await bus.publish('b', 'widgets', ['e3', 'e4']);
    assert.deepEqual(await acquire('w3'), ['b1'], 'others pass');
    assert.deepEqual([await acquire('w4', 'spare'), await suspects()], [[], ['a1']]);
    const { grants, readyJobs } = await bus.acquire(['q'], { kind: 'quarantine' });
    assert.deepEqual([grants.map(({ job, batch }) => [job, batch?.[2]]), readyJobs], [[['a1', '3']], 0]);
    assert.equal((await bus.ack('q', 'a1')).held, true);
  });

  test('is announced to quarantines, and counts for them alone', async () => {
    await suspect();
    const listener = await Listener.open(redis.store);
    const heard = await listener.during(redis.store, () => acquire('w3'));
    await listener.close();
    assert.deepEqual(heard, ['wake:suspect']);
    const { readyJobs } = await bus.acquire(['w3']);
    assert.equal(readyJobs, 0);
  });

  test('remains a suspect while its attempts fail', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await bus.nack('q', 'a1', { attempt: '{}', delayMs: 0 });
    assert.deepEqual([await acquire('w3'), await suspects()], [[], ['a1']]);
  });

  test('enters its lane and its share though these are full, as a quarantine takes no worker of others', async () => {
    await suspect();
    await redis.store.redis.hset(redis.store.keys.subscriber('alice'), { slow: '1', max_in_flight: '1' });
    await bus.publish('b', 'widgets', ['e3', 'e4']);
    const idle = { idle: 1, laneLimit: 1 };
    assert.deepEqual((await bus.acquire(['w3'], idle)).grants[0]?.job, 'b1');
    assert.deepEqual((await bus.acquire(['q'], { ...idle, kind: 'quarantine' })).grants[0]?.job, 'a1');
  });

  test('waits for its turn in an ordered lane, and then for a quarantine again', async () => {
    await suspect();
    await bus.publish('b', 'widgets', ['e3', 'e4']);
    await dieOfJob('w3', 'b1');
    await dieOfJob('w3', 'b1');
    assert.deepEqual([await acquire('w3'), await suspects()], [[], ['a1', 'b1']]);
    await redis.store.redis.hset(redis.store.keys.subscriber('alice'), 'ordered', '1');
    const { grants } = await bus.acquire(['q1', 'q2'], { kind: 'quarantine' });
    assert.deepEqual(
      grants.map(({ job }) => job),
      ['a1'],
    );
    await bus.ack('q1', 'a1');
    assert.deepEqual([await acquire('w3'), await acquire('q1', 'quarantine')], [[], ['b1']]);
  });

  test('waits outside while its subscriber is throttled or paused', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await bus.nack('q', 'a1', { attempt: '{}', pause: 1, throttleMs: 1000, delayMs: 1 });
    const { lanes } = await bus.state();
    assert.deepEqual([lanes.waiting, lanes.suspects], [{ alice: ['a1'] }, []]);
  });

  test('is dropped as any other, which a quarantine finds out', async () => {
    await suspect();
    await acquire('w3');
    assert.equal((await bus.autodrop(1)).batches, 1);
    assert.deepEqual(await acquire('q', 'quarantine'), []);
    assert.equal(await redis.store.redis.exists(redis.store.keys.jobs_suspect()), 0);
  });
});

test('a single death, or answers that speak of deaths, make no suspect', async () => {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await dieOfJob('w1', 'a1');
  const attempt = JSON.stringify({ reason: 'HTTP 500', answer: '"reason":"its worker died"' });
  for (let n = 0; n < 3; n++) {
    assert.deepEqual(await acquire('w2'), ['a1']);
    await bus.nack('w2', 'a1', { attempt });
  }
});

describe('condemn', () => {
  test('buries what a quarantine held when it died, and forgets its worker', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    assert.deepEqual(await bus.condemn('q'), { job: 'a1', token: 'alice', buried: 2, dropped: 0 });
    const { a1 } = await readDeadLetters(redis.store);
    const { redis: commands, keys } = redis.store;
    assert.deepEqual([a1?.reason, a1?.attempts, a1?.history], ['killed_worker', 3, 3]);
    assert.equal((await bus.subscriber('alice')).health_points, '100', 'the subscriber is not to blame');
    assert.equal(await commands.hexists(keys.workers(), 'q'), 0);
    assert.equal(await commands.sismember(keys.workers_main(), 'q'), 0);
    assert.deepEqual(
      await bus.condemn('q'),
      { job: undefined, token: undefined, buried: 0, dropped: 0 },
      'once',
    );
  });

  test('says the same when it is repeated with the batch, and nothing when the dead letter is gone', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    const first = await bus.condemn('q', 'a1');
    assert.equal(first.buried, 2);
    assert.deepEqual(await bus.condemn('q', 'a1'), first);
    await bus.revive('', 'a1');
    assert.equal((await bus.condemn('q', 'a1')).buried, 0);
  });

  test('buries nothing if a scrub has taken the job, which then waits for a quarantine again', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await bus.scrub(-1);
    assert.equal((await bus.condemn('q')).buried, 0);
    assert.deepEqual([await acquire('w3'), await acquire('q2', 'quarantine')], [[], ['a1']]);
  });

  test('lets the lane go on', async () => {
    await suspect();
    await acquire('w3');
    await redis.store.redis.hset(redis.store.keys.subscriber('alice'), 'ordered', '1');
    await bus.publish('b', 'widgets', ['e3', 'e4']);
    assert.deepEqual([await acquire('q', 'quarantine'), await acquire('w3')], [['a1'], []]);
    await bus.condemn('q');
    assert.deepEqual(await acquire('w3'), ['b1']);
  });

  test('deletes the batch of a subscriber that has left', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.condemn('q'), { job: 'a1', token: 'alice', buried: 0, dropped: 2 });
    assert.deepEqual((await bus.state()).index, []);
  });

  test('is undone by a revival: the batch waits for a quarantine at once', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await bus.condemn('q');
    assert.deepEqual(await bus.revive('', 'a1'), [['alice', 2]]);
    assert.deepEqual([await acquire('w3'), await acquire('q2', 'quarantine')], [[], ['a1']]);
  });

  test('is undone by a revival, after which the batch is given to quarantines alone', async () => {
    await suspect();
    await acquire('w3');
    await acquire('q', 'quarantine');
    await bus.condemn('q');
    await bus.revive('', 'a1');
    await acquire('q2', 'quarantine');
    await bus.nack('q2', 'a1');
    assert.deepEqual(
      [await acquire('w3'), await suspects()],
      [[], ['a1']],
      'given back as the process stops',
    );
    await bus.pause('alice');
    assert.deepEqual(await acquire('q2', 'quarantine'), []);
    await bus.resume('alice');
    assert.deepEqual([await acquire('w3'), await suspects()], [[], ['a1']], 'it waited for its subscriber');
    assert.deepEqual(await acquire('q2', 'quarantine'), ['a1']);
  });
});
