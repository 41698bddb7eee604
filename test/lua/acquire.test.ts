import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { commands, loadScripts } from '../../harness/redis/script_calls.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { readAcquired } from '../../src/delivering/acquired.ts';
import { packJob } from '../../src/store/job.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const lanes = {
  q: 'main',
  leaseMs: 30_000,
  laneLimit: 10,
  laneLimitMax: 100,
  slowMs: 1000,
  deliveryLog: 0,
} as const;

/** Makes instant batches of one event each, in the given order. */
async function readyBatches(...seeds: string[]): Promise<void> {
  await bus.subscribe('alice', { max: 1 });
  for (const seed of seeds) await bus.publish(seed, 'widgets', [`event ${seed}`]);
}

/** Puts bytes that are no job into `main` as an instant job. No code of the bus would do that. */
async function forge(job: Buffer): Promise<void> {
  await bus.store.redis.sadd('jobs:index:main', job);
  await bus.store.redis.lpush('jobs:instant:main', job);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('a grant', () => {
  test('is the oldest instant job, with the batch as stored, its attempt counted, and its subscriber', async () => {
    await readyBatches('a', 'b');
    const { readyJobs, now, grants } = await bus.acquire(['w1']);
    const created = String(await bus.createdMs('a1'));
    const { callback, uuid, subscribed_at: subscribedAt, ...hash } = await bus.subscriber('alice');
    assert.equal(readyJobs, 1);
    const subscriber = { callback, uuid, subscribedAt, healthPoints: 100 };
    assert.deepEqual(grants, [
      { worker: 'w1', job: 'a1', batch: ['alice', created, '1', 'event a'], subscriber },
    ]);
    assert.equal(hash.last_attempted_at, String(now));
    assert.deepEqual(await bus.store.redis.hgetall('workers'), { w1: String(now) });
    assert.deepEqual((await bus.state()).main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'b1'],
      instant: ['b1'],
      pending: { w1: ['a1'] },
      pendingIndex: ['w1'],
    });
  });

  test('closes the batch: the next event opens another', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['e1']);
    await bus.ripen('a1');
    await bus.acquire(['w1']);
    assert.deepEqual((await bus.state()).current, {});
    await bus.publish('b', 'widgets', ['e2']);
    const state = await bus.state();
    assert.deepEqual(state.current, { alice: ['b1'] });
    assert.deepEqual(state.batches.a1?.events, ['e1']);
  });

  test('goes to each of several workers, as far as there are jobs', async () => {
    await readyBatches('a', 'b');
    const { readyJobs, grants } = await bus.acquire(['w1', 'w2', 'w3']);
    assert.equal(readyJobs, 0);
    assert.deepEqual(
      grants.map(({ worker, job }) => [worker, job]),
      [
        ['w1', 'a1'],
        ['w2', 'b1'],
      ],
    );
    assert.deepEqual(Object.keys(await bus.store.redis.hgetall('workers')), ['w1', 'w2', 'w3']);
    assert.deepEqual((await bus.state()).main.pendingIndex, ['w1', 'w2']);
  });

  test('is given again to the worker that holds it, as its reply was lost; the attempt counts once', async () => {
    await readyBatches('a', 'b');
    const [first] = (await bus.acquire(['w1'])).grants;
    const [again, other] = (await bus.acquire(['w1', 'w2'])).grants;
    assert.deepEqual([again?.job, again?.batch], [first?.job, first?.batch]);
    assert.equal(other?.job, 'b1');
    const { batches, main } = await bus.state();
    assert.equal(batches.a1?.attempts, 1);
    assert.deepEqual(main.pending, { w1: ['a1'], w2: ['b1'] });
  });

  test('has no subscriber when that one has left', async () => {
    await readyBatches('a');
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    const { grants } = await bus.acquire(['w1']);
    assert.equal(grants[0]?.job, 'a1');
    assert.deepEqual([grants[0]?.batch, grants[0]?.subscriber], [undefined, undefined]);
    assert.deepEqual(await bus.subscriber('alice'), {});
  });

  test('is not given while nothing is instant', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['e1']);
    assert.deepEqual((await bus.acquire(['w1'])).grants, []);
    assert.deepEqual((await bus.state()).main, { ...EMPTY_QUEUE, index: ['a1'], scheduled: ['a1'] });
  });

  test('comes from the queue that was asked for', async () => {
    await readyBatches('a');
    await bus.enqueue('scrub');
    assert.deepEqual((await bus.acquire(['x1', 'x2'], { q: 'aux' })).grants, [
      { worker: 'x1', job: 'scrub' },
    ]);
    const { main, aux } = await bus.state();
    assert.deepEqual(main.instant, ['a1']);
    assert.deepEqual(aux, {
      ...EMPTY_QUEUE,
      index: ['scrub'],
      pending: { x1: ['scrub'] },
      pendingIndex: ['x1'],
    });
  });

  test('hands out some thousands of events in a call, and leaves the rest for the next', async () => {
    await bus.subscribe('alice', { max: 2000 });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 10_000 }, (_, i) => `${i}`),
    );
    const first = await bus.acquire(['w1', 'w2', 'w3', 'w4', 'w5']);
    assert.deepEqual([first.grants.length, first.readyJobs], [3, 2]);
    const second = await bus.acquire(['w4', 'w5']);
    assert.deepEqual([second.grants.length, second.readyJobs], [2, 0]);
  });
});

describe('a job whose batch is gone', () => {
  test('is forgotten, and the next is given', async () => {
    await forge(packNamed('lost1'));
    await readyBatches('a');
    const { readyJobs, grants } = await bus.acquire(['w1']);
    assert.equal(readyJobs, 0);
    assert.deepEqual(
      grants.map(({ job }) => job),
      ['a1'],
    );
    assert.deepEqual((await bus.state()).main.index, ['a1']);
  });

  test('costs a call little, however many there are', async () => {
    for (let i = 1; i <= 600; i++) await forge(packNamed(`lost${i}`));
    const first = await bus.acquire(['w1']);
    assert.deepEqual([first.grants.length, first.readyJobs], [0, 100]);
    const second = await bus.acquire(['w1']);
    assert.deepEqual([second.grants.length, second.readyJobs], [0, 0]);
    assert.deepEqual((await bus.state()).main.index, []);
  });

  test('is handed out without it where it went while the worker held it', async () => {
    await readyBatches('a');
    await bus.acquire(['w1']);
    await bus.store.redis.del(`batch:${longName('a1')}`, 'batches:index', 'batches:index:alice');
    await bus.store.redis.del('batches:gauges:event', 'batches:gauges:batch');
    assert.deepEqual((await bus.acquire(['w1'])).grants, [{ worker: 'w1', job: 'a1' }]);
    assert.deepEqual(await bus.ack('w1', 'a1', { bid: '' }), { held: true, removed: 0 });
  });
});

describe('bytes that are no job', () => {
  const odd = {
    text: Buffer.from('hello'),
    nothing: Buffer.alloc(0),
    cut: packNamed('a1').subarray(0, 12),
    'a batch of no name': packJob('batch'),
    'a batch of an odd name': packJob('batch', [[1, { a: 2 }]]),
    'a batch without arguments': Buffer.from('92a56261746368c0', 'hex'),
    'an unknown name': packJob('unheard_of', [1]),
    'nested deeply': Buffer.concat([Buffer.alloc(5000, 0x91), Buffer.from([0xc0])]),
  };
  for (const [what, bytes] of Object.entries(odd)) {
    test(`(${what}) are handed out as they are, and can be forgotten`, async () => {
      await forge(bytes);
      const { grants } = readAcquired(
        await bus.store.run('acquire', {
          ...lanes,
          finished: [],
          workers: ['w1'],
          kind: 'regular',
          uidSeed: 'cut',
        }),
      );
      const lease = await bus.store.redis.get('leases:last');
      assert.equal(grants.length, 1);
      assert.deepEqual(
        [grants[0]?.worker, grants[0]?.packed, grants[0]?.lease],
        ['w1', bytes, Number(lease)],
      );
      assert.equal(grants[0]?.batch, undefined);
      const done = { worker: 'w1', job: bytes, lease: Number(lease), heal: 0, tookMs: 5 };
      const asks = { ...lanes, finished: [done], workers: [], kind: 'regular', uidSeed: 'cut' } as const;
      const { acks } = readAcquired(await bus.store.run('acquire', asks));
      assert.deepEqual(acks, [{ held: true, removed: 0, isGone: false }]);
    });
  }
});

describe('a throttled subscriber', () => {
  const throttle = async (token: string, ms: number) => {
    const until = (await bus.nowMs()) + ms;
    await bus.store.redis.hset(`subscriber:${token}`, 'throttled_until', until);
    return String(until);
  };

  test('waits for its probe when it may be tried; without an attempt, and others pass', async () => {
    await readyBatches('a', 'b');
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
    await bus.publish('c', 'gadgets', ['e3']);
    const until = await throttle('alice', 60_000);
    const { grants } = await bus.acquire(['w1', 'w2', 'w3']);
    assert.deepEqual(
      grants.map(({ job }) => job),
      ['c1'],
    );
    const { batches, main, lanes } = await bus.state();
    assert.equal(batches.a1?.attempts, 0);
    assert.deepEqual(main.scheduled, ['a1']);
    assert.deepEqual(lanes.waiting, { alice: ['b1'] });
    assert.equal(await bus.store.redis.zscore('jobs:scheduled:main', packNamed('a1')), until);
    assert.equal((await bus.subscriber('alice')).last_attempted_at, undefined);
  });

  test('keeps a batch that was put off open where it was', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', ['e1']);
    await bus.ripen('a1');
    await throttle('alice', 60_000);
    await bus.acquire(['w1']);
    await bus.publish('b', 'widgets', ['e2']);
    const state = await bus.state();
    assert.deepEqual(state.current, { alice: ['a1'] });
    assert.deepEqual(state.batches.a1?.events, ['e1', 'e2']);
  });

  test('is tried with one batch when its time has come, while the others wait', async () => {
    await readyBatches('a', 'b', 'c');
    await throttle('alice', 0);
    const { grants } = await bus.acquire(['w1', 'w2', 'w3']);
    assert.deepEqual(
      grants.map(({ job }) => job),
      ['a1'],
    );
    const { main, lanes } = await bus.state();
    assert.deepEqual(main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'b1', 'c1'],
      pending: { w1: ['a1'] },
      pendingIndex: ['w1'],
    });
    assert.deepEqual(lanes, {
      waiting: { alice: ['b1', 'c1'] },
      inFlight: { alice: 1 },
      held: { w1: 'alice' },
      sharing: { slow: [], failing: [], joins: [] },
      shares: { slow: [], failing: ['w1'], joins: [] },
      suspects: [],
    });
  });

  test('is throttled no longer when one batch was taken: what waited goes on', async () => {
    await readyBatches('a', 'b', 'c');
    await throttle('alice', 0);
    await bus.acquire(['w1', 'w2']);
    await bus.ack('w1', 'a1');
    assert.equal((await bus.subscriber('alice')).throttled_until, undefined);
    assert.deepEqual(
      (await bus.acquire(['w1', 'w2'])).grants.map(({ job }) => job),
      ['b1', 'c1'],
    );
  });

  test('has another batch try it when the first failed, though that one itself waits for longer', async () => {
    await readyBatches('a', 'b', 'c');
    await throttle('alice', 0);
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.nack('w1', 'a1', { delayMs: 60_000, damage: 2, throttleMs: 1000 });
    assert.deepEqual((await bus.acquire(['w1', 'w2'])).grants, []);
    const { main, lanes } = await bus.state();
    assert.deepEqual(main.scheduled, ['b1', 'a1']);
    assert.deepEqual(lanes.waiting, { alice: ['c1'] });
  });

  test('gets another probe when the one it had is dropped', async () => {
    await readyBatches('a', 'b', 'c');
    await throttle('alice', 60_000);
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.autodrop(1);
    await bus.acquire(['w1']);
    const { main, lanes } = await bus.state();
    assert.deepEqual(main.scheduled, ['b1']);
    assert.deepEqual(lanes.waiting, { alice: ['c1'] });
    await assertConsistent(bus.store);
  });

  test('that is stepped over five hundred times keeps others waiting for one more call at most', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.subscribe('bob', { max: 1, topics: ['gadgets'] });
    // One call opens 300 batches at most.
    for (const seed of ['a', 'b']) await bus.publish(seed, 'widgets', Array(275).fill('e'));
    await bus.publish('c', 'gadgets', ['e']);
    await throttle('alice', 60_000);
    assert.deepEqual((await bus.acquire(['w1'])).grants, []);
    const { readyJobs, grants } = await bus.acquire(['w1']);
    assert.deepEqual([readyJobs, grants[0]?.batch?.[0]], [0, 'bob']);
  });
});

describe('the events of a batch come in pieces', () => {
  async function piecesOf(events: string[]): Promise<string[]> {
    await bus.subscribe('alice', { max: events.length });
    await bus.publish('a', 'widgets', events);
    const { grants } = readAcquired(
      await bus.store.run('acquire', {
        ...lanes,
        finished: [],
        workers: ['w1'],
        kind: 'regular',
        uidSeed: 'cut',
      }),
    );
    return grants[0]?.batch?.pieces.map(String) ?? [];
  }
  const json = (length: number) => `{${'x'.repeat(length - 2)}}`;

  test('of 8 KB, or of one event that is longer, joined with commas', async () => {
    const events = [100, 2, 8088, 8191, 2, 20_000, 9000, 5000, 3191, 2].map(json);
    const lengths = (await piecesOf(events)).map(({ length }) => length);
    assert.deepEqual(lengths, [8192, 8191, 2, 20_000, 9000, 8192, 2]);
  });

  test('of all events, where they are short', async () => {
    const events = Array.from({ length: 100 }, () => json(50));
    assert.deepEqual(await piecesOf(events), [events.join(',')]);
  });

  test('of one event, where that is not JSON: the worker decodes it', async () => {
    const [one, two] = [json(10), json(20)];
    const events = ['legacy', one, two, 'legacy', 'legacy', one, 'legacy'];
    const pieces = ['legacy', `${one},${two}`, 'legacy', 'legacy', one, 'legacy'];
    assert.deepEqual(await piecesOf(events), pieces);
  });
});

test('without workers nothing changes', async () => {
  await readyBatches('a');
  const before = await snapshot(bus.store);
  assert.deepEqual((await bus.acquire([])).grants, []);
  assert.deepEqual(await snapshot(bus.store), before);
});

test('each batch more that is finished and handed out in a call takes eight commands', async () => {
  await loadScripts(bus.store);
  await bus.subscribe('alice', { max: 1 });
  await bus.publish('a', 'widgets', Array(12).fill('e'));
  const workers = ['w1', 'w2', 'w3', 'w4', 'w5', 'w6'];
  const spent: number[] = [];
  let { grants } = await bus.acquire(workers);
  // The first call does not count, because it begins the delivery log.
  for (const count of [1, 1, 3]) {
    const finished = grants.slice(0, count).map(({ worker, job }) => ({ worker, job }));
    // Keeps the call from looking for slow deliveries, which takes a command. It looks only if the newest lease was
    // given in an earlier quarter of a second. A second ahead of the clock, the number of a lease is taken for a sign
    // that the clock was set back.
    await bus.store.redis.set('leases:last', ((await bus.nowMs()) + 900) * 1000);
    const before = await commands(bus.store);
    const next = await bus.acquire(
      finished.map(({ worker }) => worker),
      { finished },
    );
    assert.equal(next.grants.length, count);
    // The test itself sends one command for each job, to look up the batch. It does not count.
    spent.push((await commands(bus.store)) - before - count);
    grants = grants.slice(count);
  }
  const [, one = 0, three = 0] = spent;
  assert.equal(three - one, 2 * 8);
});
