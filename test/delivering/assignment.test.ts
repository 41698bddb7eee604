import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { Assignment, type AssignmentParts } from '../../src/delivering/assignment.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { Queue } from '../../src/delivering/queue.ts';
import {
  type Burial,
  DONE,
  type Finished,
  type JobHandler,
  type Retry,
} from '../../src/delivering/settlement.ts';
import { StorageUnavailable } from '../../src/errors.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const LOST = /the lease ran out before the job was done/;

/** A queue that runs code of the test before and after each ack, nack and burial. */
class EventfulQueue extends Queue {
  before: () => unknown = () => {};
  after = () => {};

  override ack(finished: Finished) {
    return this.#around(() => super.ack(finished));
  }

  override nack(grant: Grant, retry: Retry) {
    return this.#around(() => super.nack(grant, retry));
  }

  override bury(grant: Grant, burial: Burial) {
    return this.#around(() => super.bury(grant, burial));
  }

  /** Throws away the next reply of Redis, as a cut connection does. */
  loseReply(): void {
    this.after = () => {
      this.after = () => {};
      throw new StorageUnavailable(new Error('cut'));
    };
  }

  async #around<Reply>(call: () => Promise<Reply>): Promise<Reply> {
    await this.before();
    const reply = await call();
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
  const parts = { queue, acknowledge, handler, recorder, log };
  return { assignment: new Assignment(grant, parts), queue, parts, removed, buried, says };
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
  queue.loseReply();
  await assignment.run();
  assert.deepEqual([removed, says(LOST)], [[2], false]);
});

for (const hasLeft of [false, true])
  test(`a burial whose reply was lost is repeated, and its events are counted and logged once (left: ${hasLeft})`, async () => {
    const ends: boolean[] = [];
    const attempt = { atMs: 5, durationMs: 7, reason: 'cut' };
    const onEnd = (isDropped: boolean) => void ends.push(isDropped);
    const burial: Burial = { attempt, reason: 'max_age', damage: 0, throttleMs: 0, onEnd };
    const { assignment, queue, removed, buried, says } = await assign(async () => {
      if (hasLeft) await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
      return { end: 'dead', burial };
    });
    queue.loseReply();
    await assignment.run();
    assert.deepEqual([removed, buried, ends, says(LOST)], [[2], hasLeft ? [] : [2], [hasLeft], false]);
  });

test('a pause whose reply was lost is repeated, and noted once, by the delivery that caused it', async () => {
  const pauses: string[] = [];
  const attempt = { atMs: 5, durationMs: 7, reason: 'the callback is gone' };
  const { assignment, queue, parts } = await assign(async ({ batch, subscriber }) => {
    const gone = subscriber?.subscribedAt ?? assert.fail();
    const onPaused = () => void pauses.push(batch?.bid ?? assert.fail());
    return { end: 'retry', retry: { delayMs: 9, damage: 0, throttleMs: 0, attempt, gone, onPaused } };
  });
  const first = assignment.grant.batch?.bid;
  await bus.publish('b', 'widgets', ['e3', 'e4']);
  // A quarter of the workers may deliver to alice at a time: two of these eight.
  const others = ['w2', 'w3', 'w4', 'w5', 'w6', 'w7', 'w8'];
  const [grant = assert.fail()] = (await queue.acquire(others)).grants;
  for (const each of [assignment, new Assignment(grant, parts)]) {
    queue.loseReply();
    await each.run();
  }
  assert.deepEqual(pauses, [first]);
  assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a1', 'b1'] });
});

test('a pause counts only for the delivery that caused it, not for a former one whose lease had run out', async () => {
  let pauses = 0;
  const gone = async ({ subscriber }: Grant) => subscriber?.subscribedAt ?? assert.fail();
  const { assignment, queue } = await assign(async (grant) => {
    const retry = { delayMs: 9, damage: 0, throttleMs: 0, gone: await gone(grant) };
    await queue.nack(grant, retry);
    return { end: 'retry', retry: { ...retry, onPaused: () => void pauses++ } };
  });
  await assignment.run();
  assert.equal(pauses, 0);
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

for (const end of ['done', 'dead'] as const)
  test(`a batch that another worker buried while Redis was away counts for that one alone: ${end}`, async () => {
    const attempt = { atMs: 5, durationMs: 7, reason: 'cut' };
    const burial: Burial = { attempt, reason: 'max_age', damage: 0, throttleMs: 0 };
    const handler: JobHandler = async () => (end === 'done' ? DONE : { end, burial });
    const { assignment, queue, removed, buried } = await assign(handler);
    const anotherBuries = async () => {
      queue.before = () => {};
      await bus.store.redis.hset('workers', 'w1', 1);
      await bus.scrub(SETTINGS.leaseMs);
      const [grant = assert.fail()] = (await queue.acquire(['w2'])).grants;
      await queue.bury(grant, { ...burial, attempt: { ...attempt, atMs: 9 } });
    };
    queue.before = () => {
      queue.before = anotherBuries;
      throw new StorageUnavailable(new Error('away'));
    };
    await assignment.run();
    assert.deepEqual([removed, buried], [[], []]);
    assert.equal(await bus.store.redis.zcard(bus.store.keys.dead_letters_index()), 1);
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

test('what goes wrong with a job of a bulk operation is logged without the token of its client', async () => {
  const queue = new EventfulQueue(redis.store, 'aux', SETTINGS);
  const job = { name: 'bulk', args: ['shop--0123456789abcdef', 'the-id', 'run'] };
  const grant: Grant = { worker: 'w1', packed: Buffer.of(), lease: 1, job, atMs: 0 };
  const away = async () => {
    queue.loseReply();
    throw new StorageUnavailable(new Error('away'));
  };
  for (const handler of [away, () => Promise.reject(new Error('broken'))]) {
    const { log, lines } = capturedLog();
    const recorder = { removed() {}, buried() {} };
    const acknowledge = (finished: Finished) => queue.ack(finished);
    const assignment = new Assignment(grant, { queue, acknowledge, handler, recorder, log });
    await assignment.run();
    assert.match(JSON.stringify(lines), /the-id/);
    assert.doesNotMatch(JSON.stringify(lines), /0123456789abcdef/);
  }
});
