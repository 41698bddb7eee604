import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { Assignment, type AssignmentParts } from '../../src/delivering/assignment.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { type Burial, DONE, type Finished, type JobHandler } from '../../src/delivering/settlement.ts';
import { StorageUnavailable } from '../../src/errors.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const LOST = /the lease ran out before the job was done/;

/** A queue that runs code of the test before and after each ack, and each burial. */
class EventfulQueue extends Queue {
  before = () => {};
  after = () => {};

  override async ack(finished: Finished) {
    this.before();
    const reply = await super.ack(finished);
    this.after();
    return reply;
  }

  override async bury(grant: Grant, burial: Burial) {
    this.before();
    const reply = await super.bury(grant, burial);
    this.after();
    return reply;
  }
}

/** Makes a worker acquire the batch `a1` of two events. */
async function assign(handler: JobHandler = async () => DONE, together?: AssignmentParts['acknowledge']) {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  const queue = new EventfulQueue(redis.store, 'main', SETTINGS);
  const [grant = assert.fail()] = (await queue.acquire(['w1'])).grants;
  const acknowledge = together ?? ((finished: Finished) => queue.ack(finished));
  const removed: number[] = [];
  const buried: number[] = [];
  const recorder = {
    removed: (_: string, events: number) => void removed.push(events),
    buried: (_token: string, _reason: string, events: number) => void buried.push(events),
  };
  const { log, says } = capturedLog();
  return {
    assignment: new Assignment(grant, { queue, acknowledge, handler, recorder, log }),
    queue,
    removed,
    buried,
    says,
  };
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

test('a heartbeat that overtakes an ack finds no lease, which is not logged as lost', async () => {
  const { assignment, queue, removed, says } = await assign();
  queue.before = () => assignment.loseLease();
  await assignment.run();
  assert.deepEqual([removed, says(LOST)], [[2], false]);
  assert.deepEqual((await bus.state()).main.index, []);
});

for (const held of [true, false])
  test(`a job that its handler settled while a heartbeat was under way is logged as lost only if it was: ${!held}`, async () => {
    const { assignment, queue, says } = await assign(async (grant) => {
      if (held) await queue.ack({ grant, heal: 0, tookMs: 0 });
      assignment.loseLease();
      return { end: 'settled', held };
    });
    await assignment.run();
    assert.equal(says(LOST), !held);
  });

test('an ack whose reply was lost is repeated, and its events are counted once', async () => {
  const { assignment, queue, removed, says } = await assign();
  const lose = () => {
    queue.after = () => {};
    throw new StorageUnavailable(new Error('cut'));
  };
  queue.after = lose;
  await assignment.run();
  assert.deepEqual([removed, says(LOST)], [[2], false]);
});

test('a burial whose reply was lost is repeated, and its events are counted and logged once', async () => {
  const ends: boolean[] = [];
  const attempt = { atMs: 5, durationMs: 7, reason: 'cut' };
  const onEnd = (isDropped: boolean) => void ends.push(isDropped);
  const burial: Burial = { attempt, reason: 'max_age', damage: 0, throttleMs: 0, onEnd };
  const { assignment, queue, removed, buried, says } = await assign(async () => ({ end: 'dead', burial }));
  queue.after = () => {
    queue.after = () => {};
    throw new StorageUnavailable(new Error('cut'));
  };
  await assignment.run();
  assert.deepEqual([removed, buried, ends, says(LOST)], [[2], [2], [false], false]);
});

for (const end of ['done', 'dead'] as const)
  test(`a batch counts as removed only when it is, if the lease runs out while Redis is away: ${end}`, async () => {
    const attempt = { atMs: 5, durationMs: 7, reason: 'cut' };
    const burial: Burial = { attempt, reason: 'max_age', damage: 0, throttleMs: 0 };
    const handler: JobHandler = async () => (end === 'done' ? DONE : { end, burial });
    const { assignment, queue, removed, buried } = await assign(handler);
    queue.before = () => {
      queue.before = () => void bus.store.redis.hset('workers', 'w1', 1);
      throw new StorageUnavailable(new Error('away'));
    };
    await assignment.run();
    assert.deepEqual([removed, buried], [[], []]);
    assert.deepEqual(Object.keys((await bus.state()).batches), ['a1']);
  });

test('an ack that failed in a group is repeated alone', async () => {
  const fail = () => Promise.reject(new Error('WRONGTYPE of another'));
  const { assignment, queue, removed } = await assign(undefined, fail);
  let alone = 0;
  queue.before = () => void alone++;
  await assignment.run();
  assert.deepEqual([alone, removed], [1, [2]]);
  assert.deepEqual((await bus.state()).main.index, []);
});

test('a job that throws after its lease was lost leaves no dead letter', async () => {
  const { assignment, removed } = await assign(async () => {
    assignment.loseLease();
    throw new Error('aborted');
  });
  await assignment.run();
  assert.deepEqual((await bus.state()).main.pending, { w1: ['a1'] });
  assert.deepEqual(removed, []);
});

test('a job that is aborted before it began is given back untried', async () => {
  let runs = 0;
  const { assignment } = await assign(async () => {
    runs++;
    return DONE;
  });
  assignment.abort();
  await assignment.run();
  assert.deepEqual([runs, (await bus.state()).main.instant], [0, ['a1']]);
});
