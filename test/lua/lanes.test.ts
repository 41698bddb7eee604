import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { EMPTY_LANES } from '../../harness/scripts/state.ts';
import { LANE_LIMIT } from '../../harness/scripts/worker_calls.ts';
import type { WorkerKind } from '../../src/delivering/queue.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const laneLimit = 2;

/** Resolves with the jobs that these workers get. */
async function acquire(...workers: string[]): Promise<string[]> {
  return (await bus.acquire(workers, { laneLimit })).grants.map(({ job }) => job);
}

async function lanes() {
  return (await bus.state()).lanes;
}

/** Makes ready batches of one event each for alice, and then for bob. */
async function publishForBoth(forAlice: string[], forBob: string[] = []): Promise<void> {
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
  for (const seed of forAlice) await bus.publish(seed, 'widgets', ['e']);
  for (const seed of forBob) await bus.publish(seed, 'gadgets', ['e']);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('a lane', () => {
  test('holds as many deliveries as its limit; further jobs wait outside the queue, and other subscribers pass', async () => {
    await publishForBoth(['a', 'b', 'c', 'd'], ['x']);
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4', 'w5'), ['a1', 'b1', 'x1']);
    assert.deepEqual(await lanes(), {
      ...EMPTY_LANES,
      waiting: { alice: ['c1', 'd1'] },
      inFlight: { alice: 2, bob: 1 },
      held: { w1: 'alice', w2: 'alice', w3: 'bob' },
    });
  });

  test('keeps its waiting jobs if the subscriber says again that it is not ordered', async () => {
    await publishForBoth(['a', 'b', 'c', 'd']);
    await acquire('w1', 'w2', 'w3');
    await bus.subscribe('alice', { max: 1, ordered: 0 });
    assert.deepEqual((await lanes()).waiting, { alice: ['c1', 'd1'] });
  });

  test('continues with the job that waited longest when a delivery is accepted', async () => {
    await publishForBoth(['a', 'b', 'c', 'd']);
    await acquire('w1', 'w2', 'w3');
    await bus.ack('w2', 'b1', { laneLimit });
    assert.deepEqual(await acquire('w2', 'w3'), ['c1']);
    assert.deepEqual((await lanes()).waiting, { alice: ['d1'] });
  });

  test('takes turns with others: its waiting jobs return at the end of the queue', async () => {
    await publishForBoth(['a', 'b', 'c'], ['x', 'y', 'z']);
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a1', 'b1', 'x1']);
    await bus.ack('w1', 'a1', { laneLimit });
    assert.deepEqual(await acquire('w1'), ['y1']);
    await bus.ack('w3', 'x1', { laneLimit });
    assert.deepEqual(await acquire('w3'), ['z1']);
    await bus.ack('w2', 'b1', { laneLimit });
    assert.deepEqual(await acquire('w2'), ['c1']);
  });

  test('has room again when a delivery is given back, and when its worker dies', async () => {
    await publishForBoth(['a', 'b', 'c']);
    await acquire('w1', 'w2');
    await bus.nack('w1', 'a1', {});
    assert.deepEqual(await acquire('w1'), ['a1']);
    await bus.scrub(-1);
    assert.deepEqual(await lanes(), EMPTY_LANES);
    assert.deepEqual((await acquire('w3', 'w4')).sort(), ['a1', 'b1']);
  });

  test('continues when a delivery is scheduled for another attempt and its subscriber is not throttled', async () => {
    await publishForBoth(['a', 'b', 'c']);
    await acquire('w1', 'w2', 'w3');
    await bus.nack('w1', 'a1', { delayMs: 60_000 });
    assert.deepEqual(await acquire('w1'), ['c1']);
  });

  test('returns one waiting job for each delivery that ends, and one more while it is below its limit', async () => {
    await publishForBoth(['a', 'b', 'c', 'd', 'e', 'f']);
    await acquire('w1', 'w2', 'w3');
    await bus.ack('w1', 'a1', { laneLimit });
    const { main, lanes: after } = await bus.state();
    assert.deepEqual([main.instant, after.waiting], [['c1'], { alice: ['d1', 'e1', 'f1'] }]);
    await bus.ack('w2', 'b1', { laneLimit: 5 });
    const { main: wider } = await bus.state();
    assert.deepEqual(wider.instant, ['c1', 'd1', 'e1']);
  });

  test('counts a delivery once when its worker acquires it again', async () => {
    await publishForBoth(['a', 'b']);
    await acquire('w1');
    assert.deepEqual(await acquire('w1'), ['a1']);
    assert.deepEqual((await lanes()).inFlight, { alice: 1 });
  });

  test('is emptied with the queue when its subscriber leaves, except for deliveries in flight', async () => {
    await publishForBoth(['a', 'b', 'c', 'd']);
    await acquire('w1', 'w2', 'w3');
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.dropQueue('alice'), { batches: 2, events: 2 });
    await bus.ack('w1', 'a1', { laneLimit });
    await bus.ack('w2', 'b1', { laneLimit });
    assert.deepEqual(await lanes(), EMPTY_LANES);
  });

  test('returns its jobs one by one if its subscriber left before its queue was dropped', async () => {
    await publishForBoth(['a', 'b', 'c', 'd']);
    await acquire('w1', 'w2', 'w3');
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    const seen = ['a1', 'b1'];
    for (let job = seen.shift(); job; job = seen.shift()) {
      const worker = Object.entries((await bus.state()).main.pending).find(([, [held]]) => held === job)?.[0];
      await bus.ack(worker ?? '', job, { laneLimit });
      seen.push(...(await acquire('w1', 'w2')).filter((each) => !seen.includes(each)));
    }
    assert.deepEqual((await bus.state()).batches, {});
  });

  test('keeps a batch open while its job waits outside the queue', async () => {
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('a', 'widgets', ['1', '2', '3']);
    await bus.publish('b', 'widgets', ['4', '5', '6']);
    await bus.publish('c', 'widgets', ['7']);
    await bus.ripen('c1');
    await acquire('w1', 'w2', 'w3');
    assert.deepEqual((await lanes()).waiting, { alice: ['c1'] });
    await bus.publish('d', 'widgets', ['8', '9', '10']);
    const { batches, lanes: after } = await bus.state();
    assert.deepEqual([batches.c1?.events, batches.d1?.events], [['7', '8', '9'], ['10']]);
    assert.deepEqual(after.waiting, { alice: ['c1'] });
  });
});

describe('a subscriber that asks for a number of deliveries in flight', () => {
  const WORKERS = Array.from({ length: 120 }, (_, i) => `w${i}`);
  const subscribe = (inFlight: number | '') => bus.subscribe('alice', { max: 1, inFlight });
  const inFlight = async () => (await lanes()).inFlight.alice;
  async function publish(batches: number): Promise<void> {
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: batches }, () => 'e'),
    );
  }

  test('below the default gets that many', async () => {
    await subscribe(1);
    await publish(4);
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a1']);
  });

  test('above the default gets that many', async () => {
    await subscribe(5);
    await publish(9);
    assert.deepEqual((await acquire(...WORKERS)).length, 5);
    assert.equal((await lanes()).waiting.alice?.length, 4);
  });

  test('gets as many as have 64 MiB together, if it asks for long ones', async () => {
    for (const [maxBytes, allowed] of [
      [16_777_216, 4],
      [5_000_000, 13],
      [1024, 20],
    ] as const) {
      await redis.flush();
      await bus.subscribe('alice', { max: 1, inFlight: 20, maxBytes });
      await publish(30);
      const held = await acquire(...WORKERS);
      assert.equal(held.length, allowed);
      for (const [index, job] of held.entries()) await bus.ack(`w${index}`, job, { laneLimit });
      assert.equal((await acquire(...WORKERS)).length, Math.min(allowed, 30 - allowed));
    }
  });

  test('above the maximum gets the maximum, here a hundred', async () => {
    await subscribe(1000);
    await publish(150);
    assert.equal((await acquire(...WORKERS)).length, 100);
  });

  test('has its lane opened up to that number after its failures end', async () => {
    await subscribe(5);
    await publish(20);
    await acquire('w1', 'w2', 'w3');
    await bus.nack('w1', 'a1', { delayMs: 60_000, damage: 2, throttleMs: 60_000 });
    await acquire(...WORKERS.slice(10));
    assert.equal((await lanes()).waiting.alice?.length, 16);
    await bus.ack('w2', 'a2', { laneLimit });
    const { main } = await bus.state();
    assert.equal(main.instant.length, 5, 'the probe, and four beside the one in flight');
    await acquire(...WORKERS.slice(10));
    assert.equal(await inFlight(), 5);
  });

  test('and later for more gets them at once if jobs wait', async () => {
    await subscribe(1);
    await publish(9);
    await acquire(...WORKERS);
    await subscribe(4);
    await acquire(...WORKERS.slice(1));
    assert.equal(await inFlight(), 4);
  });

  test('and later for as many as it has by default has its waiting jobs stay where they are', async () => {
    await subscribe('');
    await publish(LANE_LIMIT + 3);
    await bus.acquire(WORKERS);
    await subscribe(LANE_LIMIT);
    const { main, lanes: after } = await bus.state();
    assert.deepEqual([main.instant, after.waiting.alice?.length], [[], 3]);
  });

  test('and later for fewer gets that number as soon as the other deliveries have ended', async () => {
    await subscribe(4);
    await publish(9);
    await acquire(...WORKERS);
    await subscribe(2);
    await bus.ack('w0', 'a1', { laneLimit });
    assert.deepEqual([await acquire('w0'), await inFlight()], [[], 3]);
    await bus.ack('w1', 'a2', { laneLimit });
    assert.deepEqual([await acquire('w1'), await inFlight()], [[], 2]);
    await bus.ack('w2', 'a3', { laneLimit });
    assert.equal((await acquire('w2')).length, 1);
    assert.equal(await inFlight(), 2);
  });

  test('keeps the number when a later subscription omits it', async () => {
    await subscribe(1);
    await subscribe('');
    await publish(4);
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['a1']);
  });
});

test('has only one scheduled attempt while its lane fails', async () => {
  await publishForBoth(['a', 'b', 'c', 'd', 'e']);
  await acquire('w1', 'w2', 'w3');
  await bus.nack('w1', 'a1', { delayMs: 50_000, damage: 2, throttleMs: 40_000 });
  await bus.nack('w2', 'b1', { delayMs: 50_000, damage: 2, throttleMs: 45_000 });
  assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
  const { main, lanes: after } = await bus.state();
  assert.deepEqual(main.scheduled.length, 3);
  assert.equal(after.waiting.alice?.length, 2);
});

describe('a lane, whatever its subscriber asked for,', () => {
  const WORKERS = Array.from({ length: 64 }, (_, i) => `w${i}`);
  const SPARE = Array.from({ length: 22 }, (_, i) => `spare${i}`);
  const TOKENS = ['ann', 'ben', 'cat', 'dan', 'eve'];

  /** Makes subscribers with a hundred ready batches each, which ask for the maximum of deliveries in flight. */
  async function greedy(...tokens: string[]): Promise<void> {
    for (const token of tokens) {
      await bus.subscribe(token, { topics: [token], max: 1, inFlight: 100 });
      await bus.publish(token, token, Array(100).fill('e'));
    }
  }
  /** Gives jobs to all workers, in four calls: a call passes over 500 jobs at most, and up to 1,500 are ready. */
  async function fill(workers = WORKERS, kind: WorkerKind = 'regular'): Promise<void> {
    for (let calls = 0; calls < 4; calls++) await bus.acquire(workers, { idle: 0, laneLimit: 100, kind });
  }
  const inFlight = async () => (await lanes()).inFlight;

  test('holds at most a quarter of the workers', async () => {
    await greedy('ann');
    await fill();
    assert.deepEqual(await inFlight(), { ann: 16 });
  });

  test('holds of the spare workers at most a quarter of what other lanes leave, so that others find some', async () => {
    await greedy('ann', 'ben', 'cat', 'dan');
    await fill();
    assert.deepEqual(await inFlight(), { ann: 16, ben: 16, cat: 16, dan: 16 });
    await greedy('eve', 'fay', 'gus', 'hal', 'ian', 'joe', 'kim');
    await fill(SPARE, 'spare');
    const { ann, ben, cat, dan, ...others } = await inFlight();
    assert.deepEqual([ann, ben, cat, dan], [16, 16, 16, 16]);
    assert.deepEqual(others, { eve: 5, fay: 4, gus: 3, hal: 2, ian: 2, joe: 1, kim: 1 });
    await greedy('zoe');
    await fill(SPARE, 'spare');
    assert.equal((await inFlight()).zoe, 1);
  });

  for (const workers of [2, 3, 4]) {
    test(`holds one of ${workers}, and all lanes take turns`, async () => {
      await greedy(...TOKENS);
      const crew = WORKERS.slice(0, workers);
      const served = new Set<string>();
      for (let round = 1; round <= 40; round++) {
        const { main, lanes: now } = await bus.state();
        for (const token of Object.values(now.held)) served.add(token);
        assert.ok(Object.values(now.inFlight).every((count) => count === 1));
        const finished = Object.entries(main.pending).map(([worker, [job = '']]) => ({ worker, job }));
        await bus.acquire(crew, { idle: 0, laneLimit: 100, finished });
      }
      assert.equal(served.size, 5);
    });
  }
});
