import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { StorageUnavailable } from '../../src/errors.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from '../../src/jobs/job_handler.ts';
import { tickMs } from '../../src/runtime/workers.ts';
import { Bus } from '../support/bus.ts';
import { assertConsistent } from '../support/invariants.ts';
import { longName } from '../support/names.ts';
import { scriptCalls } from '../support/script_calls.ts';
import { EMPTY, EMPTY_QUEUE } from '../support/state.ts';
import { TestStore } from '../support/store.ts';
import { until } from '../support/until.ts';
import { Workshop } from '../support/workshop.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let shop: Workshop | undefined;

/** A handler that waits until the test says how its jobs end. */
class Held {
  #end!: (settlement: Settlement) => void;
  readonly #settlement = new Promise<Settlement>((resolve) => {
    this.#end = resolve;
  });
  readonly handler: JobHandler = () => this.#settlement;
  end(settlement: Settlement): void {
    this.#end(settlement);
  }
}

const done: JobHandler = async () => DONE;
async function open(handler: JobHandler, options = {}): Promise<Workshop> {
  shop = await Workshop.open(redis.store, redis.redis.url, handler, options);
  return shop;
}
const noneQueued = () => until(async () => (await bus.state()).main.index.length === 0);

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { max: 1 });
});
afterEach(async () => {
  await shop?.close();
  shop = undefined;
  await assertConsistent(redis.store);
});

describe('workers', () => {
  test('begin a job within milliseconds of its announcement', async () => {
    const { grants } = await open(done);
    for (const seed of ['a', 'b', 'c']) {
      const startMs = performance.now();
      await bus.publish(seed, 'widgets', ['e']);
      await until(() => grants.some(({ batch }) => batch?.bid === longName(`${seed}1`)), { everyMs: 1 });
      assert.ok(performance.now() - startMs < 500, 'and not at a tick');
    }
  });

  test('ask Redis for nothing while there is nothing to do', async () => {
    await open(done);
    await bus.publish('a', 'widgets', ['e']);
    await noneQueued();
    const other = await Workshop.open(redis.store, redis.redis.url, done, { queue: 'aux' });
    const before = await scriptCalls(redis.store);
    await bus.enqueue('scrub');
    await until(() => other.grants.length === 1);
    await other.close();
    // enqueue, acquire, ack, retire; and an acquire in case that more is there.
    assert.ok((await scriptCalls(redis.store)) - before <= 6);
  });

  test('find jobs that were there before them, and all of more jobs than workers', async () => {
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 50 }, (_, i) => `e${i}`),
    );
    const { grants, removed } = await open(done);
    await noneQueued();
    assert.equal(new Set(grants.map(({ batch }) => batch?.bid)).size, 50);
    assert.equal(grants.length, 50);
    assert.deepEqual(removed, Array(50).fill(['alice', 1]));
  });

  test('look by themselves now and then, as an announcement may be lost', async () => {
    const { grants } = await open(done, { tickMs: 20 });
    await until(async () => (await redis.store.redis.hlen('workers')) === 2);
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
  });

  test('hold one job each at most, at the same time', async () => {
    const held = new Held();
    await bus.publish('a', 'widgets', ['e1', 'e2', 'e3']);
    const { grants } = await open(held.handler);
    await until(() => grants.length === 2);
    const { main } = await bus.state();
    assert.deepEqual([Object.values(main.pending).flat().sort(), main.instant], [['a1', 'a2'], ['a3']]);
    held.end(DONE);
    await noneQueued();
  });

  test('do what the job asks for: heal, or try again', async () => {
    await redis.store.redis.hset('subscriber:alice', 'health_points', 50);
    const outcomes: Settlement[] = [
      { done: false, retry: { delayMs: 60_000, damage: 2, throttleMs: 0 } },
      { done: true, heal: 3 },
    ];
    await open(async () => outcomes.shift() ?? DONE, { count: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await until(async () => (await bus.state()).main.scheduled.includes('a1'));
    assert.equal((await bus.subscriber('alice')).health_points, '48');
    await bus.ripen('a1');
    await noneQueued();
    assert.equal((await bus.subscriber('alice')).health_points, '51');
  });

  test('outlive a handler that throws; its job is run again in half a minute', async () => {
    const { recorded } = await open(async ({ batch }) => {
      if (String(batch?.events[0]) === 'bad') throw new Error('cannot be read');
      return DONE;
    });
    await bus.publish('a', 'widgets', ['bad', 'good']);
    await until(async () => (await bus.state()).main.scheduled.length === 1);
    await until(async () => (await bus.state()).main.index.length === 1);
    const dueMs = Number((await redis.store.redis.zrange('jobs:scheduled:main', '0', '0', 'WITHSCORES'))[1]);
    assert.ok(Math.abs(dueMs - (await bus.nowMs()) - 30_000) < 5000);
    assert.ok(recorded.says(/a job failed; it will run again/));
    assert.equal((await bus.subscriber('alice')).health_points, '100', 'nobody else is to blame');
  });
});

test('a job that only lost Redis is run again in a second', async () => {
  await open(async () => {
    throw new StorageUnavailable(new Error('cut'));
  });
  await bus.publish('a', 'widgets', ['e']);
  await until(async () => (await bus.state()).main.scheduled.length === 1);
  const [, dueMs] = await redis.store.redis.zrange('jobs:scheduled:main', '0', '0', 'WITHSCORES');
  assert.ok(Number(dueMs) - (await bus.nowMs()) <= 1000);
});

describe('during a long job', () => {
  test('the worker says that it is alive, so no scrub takes the job', async () => {
    const held = new Held();
    const { grants } = await open(held.handler, { tickMs: 20 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    const worker = grants[0]?.worker ?? '';
    await redis.store.redis.hset('workers', worker, 1);
    await until(async () => Number(await redis.store.redis.hget('workers', worker)) > 1);
    assert.deepEqual(await bus.scrub(10_000), { workers: 0, jobs: [0, 0] });
    held.end(DONE);
    await noneQueued();
  });

  test('a lease that ran out is told; nothing is changed by the worker that lost it', async () => {
    const held = new Held();
    const { grants, recorded, removed } = await open(held.handler, { count: 1 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await bus.scrub(-1);
    await bus.acquire(['thief']);
    held.end(DONE);
    await until(() => recorded.says(/the lease ran out before the job was done/));
    assert.deepEqual([(await bus.state()).main.pending, removed], [{ thief: ['a1'] }, []]);
  });

  test('a lease that ran out is told when the job is given back, too', async () => {
    const held = new Held();
    const { grants, recorded } = await open(held.handler, { count: 1 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await bus.scrub(-1);
    await bus.acquire(['thief']);
    held.end(GIVEN_BACK);
    await until(() => recorded.says(/the lease ran out before the job was given back/));
    assert.deepEqual((await bus.state()).main.pending, { thief: ['a1'] });
  });
});

describe('a stop', () => {
  test('waits for jobs under way, takes no more, and retires the workers', async () => {
    const held = new Held();
    const { grants, workers } = await open(held.handler, { count: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await until(() => grants.length === 1);
    const stopped = workers.stop(60_000);
    held.end(DONE);
    await stopped;
    const { main } = await bus.state();
    assert.deepEqual(main, { ...EMPTY_QUEUE, index: ['a2'], instant: ['a2'] });
    assert.deepEqual(await redis.store.redis.hgetall('workers'), {});
  });

  test('gives back after the grace what is still under way, for others to take at once', async () => {
    const obedient: JobHandler = (_grant, signal) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(GIVEN_BACK)));
    const { grants, workers } = await open(obedient);
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await until(() => grants.length === 2);
    await workers.stop(1);
    const { main } = await bus.state();
    assert.deepEqual(
      { ...main, instant: main.instant.sort() },
      { ...EMPTY_QUEUE, index: ['a1', 'a2'], instant: ['a1', 'a2'] },
    );
    assert.deepEqual(await redis.store.redis.hgetall('workers'), {});
    assert.equal((await bus.subscriber('alice')).health_points, '100');
  });

  test('of idle workers is immediate', async () => {
    const { workers } = await open(done);
    await until(async () => (await redis.store.redis.hlen('workers')) === 2);
    await workers.stop(60_000);
    assert.deepEqual(await bus.state(), EMPTY);
    assert.deepEqual(await redis.store.redis.hgetall('workers'), {});
  });
});

test('heartbeats come three times a lease at least', () => {
  assert.equal(tickMs({ acquireTimeoutMs: 10_000, leaseMs: 30_000 }), 10_000);
  assert.equal(tickMs({ acquireTimeoutMs: 10_000, leaseMs: 3000 }), 1000);
  assert.equal(tickMs({ acquireTimeoutMs: 500, leaseMs: 30_000 }), 500);
});
