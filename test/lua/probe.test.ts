import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { EMPTY_LANES } from '../../harness/scripts/state.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const laneLimit = 3;
const MINUTE_MS = 60_000;

const named = (prefix: string, n: number) => Array.from({ length: n }, (_, i) => `${prefix}${i + 1}`);
const WORKERS = named('w', 8);
/** Subscribers that have never accepted a batch, and the seeds of their batches. */
const NEWCOMERS = Array.from({ length: 20 }, (_, i) => `new${String.fromCharCode(97 + i)}`);

/** Number of live workers beside those that acquire: the spare ones where a test counts shares, which leave them out. */
let idle: number;

/** Resolves with the jobs that these workers get. */
async function acquire(...workers: string[]): Promise<string[]> {
  return (await bus.acquire(workers, { laneLimit, idle })).grants.map(({ job }) => job);
}

const lanes = async () => (await bus.state()).lanes;
const events = (n: number) => Array.from({ length: n }, (_, i) => `e${i}`);

/** Makes newcomers with this many ready batches each: newa1, newa2, …, newb1, … */
async function newcomers(count: number, batches = 1): Promise<void> {
  for (const token of NEWCOMERS.slice(0, count)) {
    await bus.subscribe(token, { topics: [token], max: 1, proven: false });
    await bus.publish(token, token, events(batches));
  }
}

/** Makes a subscriber that has accepted batches before, with this number of ready batches. */
async function proven(token: string, batches: number): Promise<void> {
  await bus.subscribe(token, { topics: [token], max: 1 });
  await bus.publish(token, token, events(batches));
}

const throttleIsOver = (token = 'bob') => bus.store.redis.hset(`subscriber:${token}`, 'throttled_until', 1);

beforeEach(() => {
  idle = 3;
  return redis.flush();
});
afterEach(() => assertConsistent(redis.store));

describe('subscribers that never accepted a batch', () => {
  test('leave one of two workers to proven subscribers, however many workers run other jobs', async () => {
    await bus.acquire(['x1', 'x2', 'x3', 'x4'], { q: 'aux', idle });
    await bus.acquire(['w1', 'w2'], { idle });
    await newcomers(2);
    await proven('bob', 1);
    assert.deepEqual(await acquire('w1', 'w2'), ['newa1', 'bob1']);
  });

  test('hold at most half of the regular workers together, one each; the rest is for proven subscribers', async () => {
    await newcomers(20, 3);
    await proven('bob', 10);
    await bus.subscribe('carol', { topics: ['carol'], max: 1 });
    await bus.publish('carol', 'carol', events(10));
    const jobs = await acquire(...WORKERS);
    assert.deepEqual(jobs.slice(0, 4), ['newa1', 'newb1', 'newc1', 'newd1']);
    assert.deepEqual(jobs.slice(4), ['bob1', 'bob2', 'carol1', 'carol2']);
    const { sharing, shares, waiting, inFlight } = await lanes();
    assert.deepEqual(shares.slow, ['w1', 'w2', 'w3', 'w4']);
    assert.deepEqual(
      sharing.slow,
      NEWCOMERS.slice(4).map((token) => `${token}1`),
      'one job of each lane waits for room',
    );
    assert.deepEqual(waiting.newa, ['newa2', 'newa3']);
    assert.deepEqual(waiting.newz, undefined);
    assert.deepEqual(inFlight, { newa: 1, newb: 1, newc: 1, newd: 1, bob: 2, carol: 2 });
  });

  test('may hang without delaying proven subscribers, who use the other workers', async () => {
    await newcomers(20, 2);
    await proven('bob', 30);
    await acquire(...WORKERS);
    for (let taken = 0; taken < 30; ) {
      const { lanes: now, main } = await bus.state();
      assert.equal(now.shares.slow.length, 4);
      for (const [worker, token] of Object.entries(now.held)) {
        if (token !== 'bob') continue;
        taken += (await bus.ack(worker, main.pending[worker]?.[0] ?? '', { laneLimit })).removed;
      }
      await acquire(...WORKERS.filter((worker) => !now.shares.slow.includes(worker)));
    }
    assert.deepEqual((await bus.state()).queued.bob, undefined);
  });

  test('get their whole lane with the first batch that they accept', async () => {
    idle = 100;
    await newcomers(1, 9);
    assert.deepEqual(await acquire(...WORKERS), ['newa1']);
    await bus.ack('w1', 'newa1', { laneLimit });
    assert.deepEqual(await acquire(...WORKERS), ['newa2', 'newa3', 'newa4']);
    assert.deepEqual((await lanes()).shares, EMPTY_LANES.shares);
  });

  test('get as many deliveries as they asked for, if that is higher', async () => {
    idle = 100;
    await bus.subscribe('alice', { topics: ['alice'], max: 1, inFlight: 6, proven: false });
    await bus.publish('alice', 'alice', events(9));
    assert.deepEqual(await acquire(...WORKERS), ['alice1']);
    await bus.ack('w1', 'alice1', { laneLimit });
    assert.deepEqual((await bus.state()).main.instant, named('alice', 7).slice(1), 'just as many come back');
    assert.equal((await acquire(...WORKERS)).length, 6);
  });

  test('may use the only worker of a bus', async () => {
    idle = 0;
    await newcomers(2);
    assert.deepEqual(await acquire('w1'), ['newa1']);
    assert.deepEqual(await acquire('w2', 'w3'), []);
    idle = 2;
    assert.deepEqual(await acquire('w4'), ['newb1'], 'two of four regular workers');
  });
});

describe('a subscriber that fails', () => {
  test('gets one delivery at a time again, all failing subscribers within a quarter of the regular workers', async () => {
    const failing = ['ann', 'ben', 'bob'];
    for (const token of failing) {
      await proven(token, 3);
      await acquire('w1');
      await bus.nack('w1', `${token}1`, { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
      assert.deepEqual(await acquire(...WORKERS), []);
    }
    await newcomers(5);
    for (const token of failing) {
      await throttleIsOver(token);
      await bus.ripen(`${token}2`);
    }
    assert.deepEqual(await acquire(...WORKERS), ['newa1', 'newb1', 'newc1', 'newd1', 'ann2', 'ben2']);
    const { sharing, shares, inFlight } = await lanes();
    assert.deepEqual(sharing, { slow: ['newe1'], failing: ['bob2'], joins: [] });
    assert.deepEqual(shares, { slow: ['w1', 'w2', 'w3', 'w4'], failing: ['w5', 'w6'], joins: [] });
    assert.deepEqual(inFlight.ann, 1);
    await bus.ack('w5', 'ann2', { laneLimit: 1 });
    assert.deepEqual(await acquire('w5', 'w7'), ['bob2', 'ann3'], 'ann is proven again');
  });

  test('recovers with a batch that was in flight: its probe becomes ready at once', async () => {
    idle = 100;
    await proven('bob', 6);
    await acquire('w1', 'w2');
    await bus.nack('w1', 'bob1', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    await acquire('w3', 'w4');
    const { main, lanes: before } = await bus.state();
    assert.deepEqual(
      [main.scheduled.sort(), before.waiting],
      [['bob1', 'bob3'], { bob: ['bob4', 'bob5', 'bob6'] }],
    );
    await bus.ack('w2', 'bob2', { laneLimit });
    assert.deepEqual(
      (await bus.state()).main.scheduled,
      ['bob1'],
      'it has failed, and waits for its own sake',
    );
    assert.deepEqual(await acquire('w1', 'w2', 'w3', 'w4'), ['bob3', 'bob4', 'bob5']);
  });
});

describe('the probe of a lane that fails', () => {
  beforeEach(() => {
    idle = 100;
  });

  /**
   * Lets bob1 fail. At that time bob2 and bob3 are in flight with w2 and w3, bob4 is the probe, and bob5 and bob6
   * wait.
   */
  async function probing(): Promise<void> {
    await proven('bob', 6);
    await acquire('w1', 'w2', 'w3');
    await bus.nack('w1', 'bob1', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w4'), []);
    const { main, lanes: now } = await bus.state();
    assert.deepEqual([main.scheduled.sort(), now.waiting], [['bob1', 'bob4'], { bob: ['bob5', 'bob6'] }]);
  }

  test('is the only scheduled job of its lane: deliveries that end return no waiting job', async () => {
    await probing();
    await bus.nack('w2', 'bob2', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    await bus.bury('w3', 'bob3', { damage: 2, throttleMs: MINUTE_MS });
    const { main, lanes: now } = await bus.state();
    assert.deepEqual([main.instant, now.waiting], [[], { bob: ['bob5', 'bob6'] }]);
  });

  test('waits outside the queue like other jobs while deliveries are in flight, and returns like them', async () => {
    await probing();
    await throttleIsOver();
    await bus.ripen('bob4');
    assert.deepEqual(await acquire('w1', 'w4'), []);
    assert.deepEqual((await lanes()).waiting, { bob: ['bob5', 'bob6', 'bob4'] });
    await bus.nack('w2', 'bob2', { delayMs: MINUTE_MS });
    await bus.nack('w3', 'bob3', { delayMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w2'), ['bob5'], 'the first of two that came back, one at a time');
    await bus.nack('w1', 'bob5', { delayMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1'), ['bob4']);
    await bus.nack('w1', 'bob4', { delayMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1'), ['bob6']);
  });

  test('is an ordinary delivery once it is in flight', async () => {
    await probing();
    await bus.ack('w2', 'bob2', { laneLimit: 1 });
    await bus.nack('w3', 'bob3', { delayMs: 2 * MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), []);
    assert.notEqual((await bus.subscriber('bob')).probe, undefined);
    await throttleIsOver();
    await bus.ripen('bob4');
    assert.deepEqual(await acquire('w1', 'w2', 'w3'), ['bob4']);
    assert.equal((await bus.subscriber('bob')).probe, undefined);
    await bus.nack('w1', 'bob4', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS });
    await acquire('w1', 'w2', 'w3');
    assert.ok((await bus.state()).main.scheduled.includes('bob6'), 'the one that waits longest is next');
  });
});

describe('a delivery that waits for room in a share', () => {
  /** Makes four newcomers hold w1 to w4, while the fifth and the sixth wait for room in the share. */
  async function totalWaiting(): Promise<void> {
    await newcomers(6, 2);
    assert.deepEqual(await acquire(...WORKERS), ['newa1', 'newb1', 'newc1', 'newd1']);
    assert.deepEqual((await lanes()).sharing.slow, ['newe1', 'newf1']);
  }

  const ends: Record<string, () => Promise<unknown>> = {
    'was taken': () => bus.ack('w1', 'newa1', { laneLimit }),
    failed: () => bus.nack('w1', 'newa1', { delayMs: MINUTE_MS, damage: 2, throttleMs: MINUTE_MS }),
    'is the last': () => bus.bury('w1', 'newa1', { damage: 2, throttleMs: MINUTE_MS }),
    'is gone for good': () => bus.nack('w1', 'newa1', { pause: 1, throttleMs: MINUTE_MS }),
  };
  for (const [what, end] of Object.entries(ends)) {
    test(`starts first when another of the share ${what}`, async () => {
      await totalWaiting();
      await proven('bob', 1);
      await end();
      assert.deepEqual((await acquire('w1', 'w5')).slice(0, 2), ['newe1', 'bob1']);
      assert.deepEqual((await lanes()).sharing.slow.slice(0, 1), ['newf1']);
    });
  }

  test('starts first when the worker of another dies', async () => {
    await totalWaiting();
    await bus.store.redis.hset('workers', 'w1', 1);
    await bus.scrub(MINUTE_MS);
    // Seven workers are left, of which three may deliver to new subscribers. With w9 there are eight, and four may.
    assert.deepEqual(await acquire('w9'), ['newe1']);
    assert.deepEqual((await lanes()).shares.slow, ['w2', 'w3', 'w4', 'w9']);
  });

  test('starts when more workers are there', async () => {
    await totalWaiting();
    idle = 4;
    assert.deepEqual(await acquire('w9', 'w10', 'w11', 'w12'), ['newe1', 'newf1']);
  });

  test('wakes the workers when it has room, except the one that acks: its reply says so', async () => {
    await totalWaiting();
    const listener = await Listener.open(redis.store);
    const announced = (call: () => Promise<unknown>) => listener.during(redis.store, call);
    try {
      const delayed = { delayMs: MINUTE_MS, throttleMs: MINUTE_MS };
      assert.deepEqual(await announced(() => bus.nack('w1', 'newa1', { ...delayed, pause: 1 })), [
        'wake:main',
      ]);
      await acquire('w1');
      assert.deepEqual(await announced(() => bus.bury('w2', 'newb1', delayed)), ['wake:main']);
      await acquire('w2');
      await bus.store.redis.hset('workers', 'w3', 1);
      assert.deepEqual(await announced(() => bus.scrub(MINUTE_MS)), ['wake:main']);
    } finally {
      listener.close();
    }
    const acked = await bus.ack('w4', 'newa1', { lease: 0 });
    assert.deepEqual(acked, { held: false, removed: 0 }, 'who holds nothing has nobody to tell');
  });

  test('counts as ready in the reply of an ack, if it has room', async () => {
    await totalWaiting();
    const { readyJobs } = await bus.acquire([], {
      laneLimit,
      idle,
      finished: [{ worker: 'w1', job: 'newa1' }],
    });
    assert.equal(readyJobs, 2, 'newa2, which the ack brought back, and one of newe1 and newf1');
  });

  test('is replaced by the next of its lane when its batch is dropped', async () => {
    await totalWaiting();
    assert.deepEqual(await bus.dropQueue('newe', 1), { batches: 1, events: 1 });
    await bus.ack('w1', 'newa1', { laneLimit });
    await bus.ack('w2', 'newb1', { laneLimit });
    assert.deepEqual(await acquire('w1', 'w2'), ['newf1', 'newe2']);
  });

  test('survives autodrop of other lanes and of its own', async () => {
    await totalWaiting();
    // Batches in flight are spared: newa2, newb2, newc2, newd2, newe1, newe2 and newf1 are dropped.
    assert.equal((await bus.autodrop(7)).batches, 7);
    assert.deepEqual((await bus.state()).index, ['newa1', 'newb1', 'newc1', 'newd1', 'newf2']);
    await bus.ack('w1', 'newa1', { laneLimit });
    assert.deepEqual(await acquire('w1'), ['newf2']);
  });

  test('is deleted by its job if the subscriber left and its queue was not dropped', async () => {
    await totalWaiting();
    await bus.store.run('remove_subscriber', { token: 'newe', series: [] });
    await bus.ack('w1', 'newa1', { laneLimit });
    assert.deepEqual(await acquire('w1'), ['newe1']);
    await bus.ack('w1', 'newe1', { laneLimit });
    assert.ok((await acquire('w1', 'w5', 'w6', 'w7')).includes('newe2'), 'and what waited behind it comes');
  });
});
