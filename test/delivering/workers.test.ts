import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { scriptCalls } from '../../harness/redis/script_calls.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { until } from '../../harness/until.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from '../../src/delivering/settlement.ts';
import { tickMs } from '../../src/delivering/workers.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { Workshop } from './workshop.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let shop: Workshop | undefined;

/** A handler whose job ends when the test ends it, with the settlement that the test gives. */
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

const LOST = /the lease ran out before the job was done/;
const done: JobHandler = async () => DONE;
async function open(handler: JobHandler, options = {}): Promise<Workshop> {
  shop = await Workshop.open(redis.store, handler, options);
  return shop;
}
const noneQueued = () => until(async () => (await bus.state()).main.index.length === 0);

beforeEach(async () => {
  await redis.flush();
  await bus.addIdleWorkers();
  await bus.subscribe('alice', { max: 1 });
});
afterEach(async () => {
  await shop?.close();
  shop = undefined;
  await assertConsistent(redis.store);
});

describe('workers', () => {
  test('acknowledge and acquire by one call, for all jobs that finished since the last one', async () => {
    const held = new Held();
    const events = Array.from({ length: 20 }, (_, i) => `e${i}`);
    await bus.publish('a', 'widgets', events);
    const { grants, removed } = await open(held.handler, { count: 10 });
    await until(() => grants.length === 10);
    const before = await scriptCalls(redis.store);
    held.end(DONE);
    await until(() => removed.length === 20);
    const calls = (await scriptCalls(redis.store)) - before;
    assert.ok(calls <= 4, `${calls} calls`);
  });

  test('ask again at once for what they were given by a reply that was lost, however many are idle', async (t) => {
    const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
    const store = await openStore(proxy.url);
    t.after(() => {
      store.redis.disconnect();
      proxy.stop();
    });
    const held = new Held();
    shop = await Workshop.open(store, held.handler, { count: 40 });
    const { grants } = shop;
    await bus.publish('a', 'widgets', ['e1']);
    await until(() => grants.length === 1);
    void proxy.strike(piece('reply', longName('b1')), { end: 'cut' });
    const published = bus.publish('b', 'widgets', ['e2']);
    held.end(DONE);
    await published;
    await until(() => grants.length === 2);
    assert.equal(proxy.strikes, 1);
    await noneQueued();
  });

  test('begin a job within milliseconds of its announcement', async () => {
    const { grants } = await open(done);
    for (const seed of ['a', 'b', 'c']) {
      const startMs = performance.now();
      await bus.publish(seed, 'widgets', ['e']);
      await until(() => grants.some(({ batch }) => batch?.bid === longName(`${seed}1`)), { everyMs: 1 });
      assert.ok(performance.now() - startMs < 20_000, 'and not at a tick, which comes after a minute');
    }
  });

  test('ask Redis for nothing while there is nothing to do', async () => {
    await open(done);
    await bus.publish('a', 'widgets', ['e']);
    await noneQueued();
    const other = await Workshop.open(redis.store, done, { queue: 'aux' });
    const before = await scriptCalls(redis.store);
    await bus.enqueue('scrub');
    await until(() => other.grants.length === 1);
    await other.close();
    // Four calls are enqueue, acquire, ack and retire. Another acquire may find no job.
    assert.ok((await scriptCalls(redis.store)) - before <= 6);
  });

  test('find jobs from before their start, and work through more jobs than workers', async () => {
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

  test('look for jobs at every tick, as an announcement may be lost', async () => {
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

  test('settle a job as its handler asks: heal the subscriber, or try again', async () => {
    await redis.store.redis.hset('subscriber:alice', 'health_points', 50);
    const outcomes: Settlement[] = [
      { end: 'retry', retry: { delayMs: 60_000, damage: 2, throttleMs: 0 } },
      { end: 'done', success: { heal: 3, tookMs: 5 } },
    ];
    await open(async () => outcomes.shift() ?? DONE, { count: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await until(async () => (await bus.state()).main.scheduled.includes('a1'));
    assert.equal((await bus.subscriber('alice')).health_points, '48');
    await bus.ripen('a1');
    await noneQueued();
    assert.equal((await bus.subscriber('alice')).health_points, '51');
  });

  test('bury a batch when its handler asks for it', async () => {
    const attempt = { atMs: 5, durationMs: 7.4, status: 500, reason: 'HTTP 500', answer: 'oh no' };
    const burial = { attempt, reason: 'max_age', damage: 2, throttleMs: 0 } as const;
    const { buried, removed } = await open(async () => ({ end: 'dead', burial }));
    await bus.publish('a', 'widgets', ['e1']);
    await noneQueued();
    const { redis: commands, keys } = redis.store;
    const letter = await readDeadLetters(redis.store);
    assert.deepEqual(letter, {
      a1: { token: 'alice', attempts: 1, events: ['e1'], reason: 'max_age', history: 1 },
    });
    assert.deepEqual(JSON.parse((await commands.lindex(keys.attempts(longName('a1')), 0)) ?? ''), {
      at: 5,
      status: 500,
      duration_ms: 7,
      reason: 'HTTP 500',
      answer: 'oh no',
    });
    assert.equal((await bus.subscriber('alice')).health_points, '98');
    assert.deepEqual([buried, removed], [[['alice', 'max_age', 1]], [['alice', 1]]]);
  });

  test('count a batch as removed that is not buried, as its subscriber has left', async () => {
    const burial = { attempt: { atMs: 5, durationMs: 7, reason: 'cut' }, damage: 2, throttleMs: 0 };
    const { buried, removed } = await open(async () => {
      await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
      return { end: 'dead', burial: { ...burial, reason: 'max_age' } };
    });
    await bus.publish('a', 'widgets', ['e1']);
    await until(() => removed.length > 0);
    assert.deepEqual([buried, removed], [[], [['alice', 1]]]);
  });

  test('bury the batch of a handler that throws, at no cost to the health of its subscriber', async () => {
    const { recorded, buried } = await open(async ({ batch }) => {
      if (String(batch?.pieces[0]) === 'bad') throw new Error('cannot be read');
      return DONE;
    });
    await bus.publish('a', 'widgets', ['bad', 'good']);
    await noneQueued();
    const { a1 } = await readDeadLetters(redis.store);
    assert.deepEqual(a1, {
      token: 'alice',
      attempts: 1,
      events: ['bad'],
      reason: 'failed_in_bus',
      history: 1,
    });
    assert.deepEqual(buried, [['alice', 'failed_in_bus', 1]]);
    assert.ok(recorded.says(/a job failed; its batch is a dead letter now/));
    assert.equal((await bus.subscriber('alice')).health_points, '100');
  });

  test('say that a batch was dropped if its handler throws after its subscriber has left', async () => {
    const { recorded, removed } = await open(async () => {
      await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
      throw new Error('cannot be read');
    });
    await bus.publish('a', 'widgets', ['bad']);
    await until(() => removed.length > 0);
    await until(() =>
      recorded.says(/a job failed; its batch was dropped, as its subscriber has unsubscribed/),
    );
    assert.ok(!recorded.says(/dead letter/));
  });

  test('forget a job without a batch whose handler throws, so that the next tick can put it again', async () => {
    const { recorded, grants } = await open(
      async () => {
        throw new Error('broken');
      },
      { queue: 'aux' },
    );
    assert.equal(await bus.enqueue('monitor'), true);
    await until(async () => (await bus.state()).aux.index.length === 0);
    assert.ok(recorded.says(/a job failed; the next tick will put it again/));
    assert.equal(await bus.enqueue('monitor'), true);
    await until(() => grants.length === 2);
  });
});

test('a job that failed because Redis did runs again within a second', async () => {
  await open(async () => {
    throw new StorageUnavailable(new Error('cut'));
  });
  await bus.publish('a', 'widgets', ['e']);
  await until(async () => (await bus.state()).main.scheduled.length === 1);
  const [, dueMs] = await redis.store.redis.zrange('jobs:scheduled:main', '0', '0', 'WITHSCORES');
  assert.ok(Number(dueMs) - (await bus.nowMs()) <= 1000);
});

describe('during a long job', () => {
  test('heartbeats renew the lease, so that no scrub gives the job back', async () => {
    const held = new Held();
    const { grants } = await open(held.handler, { tickMs: 20 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    const worker = grants[0]?.worker ?? '';
    const before = (await bus.nowMs()) - 20_000;
    await redis.store.redis.hset('workers', worker, before);
    await until(async () => Number(await redis.store.redis.hget('workers', worker)) > before + 10_000);
    assert.deepEqual(await bus.scrub(10_000), { workers: 0, jobs: [0, 0] });
    held.end(DONE);
    await noneQueued();
  });

  test('a lease that ran out is logged, and the ack of its worker changes nothing', async () => {
    const held = new Held();
    const { grants, recorded, removed } = await open(held.handler, { count: 1 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await bus.scrub(-1);
    await bus.acquire(['thief']);
    held.end(DONE);
    await until(() => recorded.says(LOST));
    assert.deepEqual([(await bus.state()).main.pending, removed], [{ thief: ['a1'] }, []]);
  });

  test('a lease that ran out is logged, and the nack of its worker changes nothing', async () => {
    const held = new Held();
    const { grants, recorded } = await open(held.handler, { count: 1 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await bus.scrub(-1);
    await bus.acquire(['thief']);
    held.end(GIVEN_BACK);
    await until(() => recorded.says(LOST));
    assert.deepEqual((await bus.state()).main.pending, { thief: ['a1'] });
  });

  test('a heartbeat that finds the lease lost aborts the job; this is logged once, and changes nothing in Redis', async () => {
    let aborted = 0;
    const deaf = Promise.withResolvers<Settlement>();
    const handler: JobHandler = (_grant, signal) => {
      signal.addEventListener('abort', () => aborted++);
      return deaf.promise;
    };
    const { grants, recorded, removed } = await open(handler, { count: 1, tickMs: 20 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await bus.scrub(-1);
    await bus.acquire(['thief']);
    await until(() => aborted === 1);
    const beats = await scriptCalls(redis.store);
    await until(async () => (await scriptCalls(redis.store)) >= beats + 3, { what: 'more heartbeats' });
    const before = await snapshot(redis.store);
    deaf.resolve(DONE);
    // An idle worker looks for jobs, which counts as its heartbeat.
    await until(async () => (await redis.store.redis.hkeys('workers')).includes(grants[0]?.worker ?? ''));
    await shop?.close();
    const { workers: _, ...after } = await snapshot(redis.store);
    const { workers: __, ...expected } = before;
    assert.deepEqual(after, expected);
    assert.deepEqual([recorded.lines.filter(({ msg }) => LOST.test(String(msg))).length, removed], [1, []]);
  });

  test('a worker that lost its lease gets the job again, under a new lease, if no other worker has it', async () => {
    const ends = [Promise.withResolvers<Settlement>(), Promise.withResolvers<Settlement>()];
    const handler: JobHandler = (_grant, signal) => {
      const end = ends.shift() ?? assert.fail();
      signal.addEventListener('abort', () => end.resolve(GIVEN_BACK));
      if (ends.length === 0) end.resolve(DONE);
      return end.promise;
    };
    const { grants, removed } = await open(handler, { count: 1, tickMs: 20 });
    await bus.publish('a', 'widgets', ['e']);
    await until(() => grants.length === 1);
    await redis.store.redis.hset('workers', grants[0]?.worker ?? '', 1);
    await noneQueued();
    const [first, second] = grants;
    assert.deepEqual(
      [grants.length, second?.worker, second?.batch?.bid, second?.batch?.attempts],
      [2, first?.worker, first?.batch?.bid, 1],
    );
    assert.ok(Number(second?.lease) > Number(first?.lease));
    assert.deepEqual(removed, [['alice', 1]]);
  });
});

describe('a stop', () => {
  test('waits for jobs under way, acquires no more, and retires the workers', async () => {
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

  test('gives back unfinished jobs after the grace period, for other workers to acquire at once', async () => {
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

test('workers renew their leases at least three times before these run out', () => {
  assert.equal(tickMs({ acquireTimeoutMs: 10_000, leaseMs: 30_000 }), 10_000);
  assert.equal(tickMs({ acquireTimeoutMs: 10_000, leaseMs: 3000 }), 1000);
  assert.equal(tickMs({ acquireTimeoutMs: 500, leaseMs: 30_000 }), 500);
});
