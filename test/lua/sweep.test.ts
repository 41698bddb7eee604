import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, joinEvent } from '../../harness/scripts/join_calls.ts';
import { longName, nthWord, packNamed } from '../../harness/scripts/names.ts';
import { writes } from '../../harness/scripts/sweep.ts';
import { joinToken } from '../../src/ids.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;

type Script = 'sweep_batches' | 'sweep_jobs' | 'sweep_workers' | 'sweep_lanes';

const mended = async <N extends Script>(script: N, args: Arguments<N>): Promise<string[]> => {
  const findings: Reply<Script> = await redis.store.run<Script>(script, args);
  return findings.flatMap(({ kind, name }) => [kind, String(name)]);
};

/** A job as sweep_jobs takes it. */
const job = (name: string, laneToken = '') => ({ job: packNamed(name), bid: longName(name), laneToken });
const jobs = (...suspects: Arguments<'sweep_jobs'>['suspects']) => ({ q: 'main', suspects }) as const;

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { topics: ['gadgets'], timeout: HOUR_MS });
  await bus.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4']);
  await bus.publish('b', 'gadgets', ['e5']);
  await bus.acquire(['w1', 'w2', 'w3'], { laneLimit: 2 });
});

describe('what is suspected wrongly stays as it is', () => {
  const [a1, b1, gone] = [longName('a1'), longName('b1'), longName('x1')];
  const batches = (what: string, args: Arguments<'sweep_batches'>) =>
    [`sweep_batches: ${what}`, () => mended('sweep_batches', args)] as const;
  const all = ['a1', 'a3', 'a4', 'b1', 'x1'].map((name) => job(name));
  const held = [{ worker: 'w1', bid: a1 }, { worker: 'w2', bid: longName('a2') }, { worker: 'w3' }];
  const suspicions = [
    batches('batches', { where: 'batch', names: [a1, b1, gone] }),
    batches('entries of all', { where: 'batches_index', names: [a1, b1, gone] }),
    batches('entries of a subscriber', { where: 'batches_queued', token: 'alice', names: [a1, gone] }),
    batches('current batches', { where: 'batches_current', token: 'bob', names: [b1, gone] }),
    batches('attempts', { where: 'attempts', names: [a1, gone] }),
    batches('dead letters', { where: 'dead_letter', names: [gone] }),
    batches('what is about dead letters', { where: 'dead_letter_about', names: [gone] }),
    batches('entries of dead letters', { where: 'dead_letters_index', names: [gone] }),
    batches('a subscriber’s entries of dead letters', {
      ...{ where: 'dead_letters_of', token: 'alice', names: [gone] },
    }),
    ['sweep_jobs: jobs in any state', () => mended('sweep_jobs', jobs(...all))],
    ['sweep_jobs: a job that was seen in a lane', () => mended('sweep_jobs', jobs(job('a3', 'bob')))],
    [
      'sweep_jobs: a job of aux that has run meanwhile',
      () => mended('sweep_jobs', { q: 'aux', suspects: [{ job: packNamed('scrub') }] }),
    ],
    ['sweep_workers: workers', () => mended('sweep_workers', { suspects: held })],
    [
      'sweep_workers: a worker that delivers another by now',
      () => mended('sweep_workers', { suspects: [{ worker: 'w1', bid: b1 }] }),
    ],
    ['sweep_lanes: lanes', () => mended('sweep_lanes', { tokens: ['alice', 'bob', 'nobody'] })],
  ] as const;
  for (const [what, check] of suspicions) {
    test(what, async () => {
      const before = await writes(redis.store);
      assert.deepEqual(await check(), []);
      assert.equal(await writes(redis.store), before);
    });
  }
});

describe('sweep_jobs', () => {
  test('keeps a job in the hands of its worker, whatever else it is', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.lpush(keys.jobs_instant('main'), packNamed('a1'), packNamed('a1'));
    await commands.zadd(keys.jobs_scheduled('main'), 1, packNamed('a1'));
    assert.deepEqual(await mended('sweep_jobs', jobs(job('a1'))), ['job_in_two_states', longName('a1')]);
    assert.deepEqual((await bus.state()).main.pending, { w1: ['a1'], w2: ['a2'] });
    await assertConsistent(redis.store);
    assert.equal((await bus.ack('w1', 'a1')).held, true);
  });

  test('announces what it makes instant', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.zrem(keys.jobs_scheduled('main'), packNamed('b1'));
    const listener = await Listener.open(redis.store);
    const heard = await listener.during(redis.store, () => mended('sweep_jobs', jobs(job('b1'))));
    listener.close();
    assert.deepEqual(heard, ['wake:main']);
  });

  test('spares the job of a batch that is gone while a worker holds it', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.del(keys.batch(longName('a1')));
    assert.deepEqual(await mended('sweep_jobs', jobs(job('a1'))), []);
    assert.deepEqual((await bus.state()).main.pending.w1, ['a1']);
  });
});

test('sweep_workers has a lane go on that a worker has left', async () => {
  const { redis: commands, keys } = redis.store;
  await commands.del(keys.jobs_pending('main', 'w1'));
  await mended('sweep_workers', { suspects: [{ worker: 'w1' }] });
  const { lanes, main } = await bus.state();
  assert.deepEqual([lanes.held, lanes.inFlight, main.instant], [{ w2: 'alice' }, { alice: 1 }, ['a3']]);
});

test('sweep_batches keeps a batch that it sets apart whole, with what was its head', async () => {
  const { redis: commands, keys } = redis.store;
  await commands.lset(keys.batch(longName('b1')), 2, 'often');
  const list = await commands.lrange(keys.batch(longName('b1')), 0, -1);
  assert.deepEqual(await mended('sweep_batches', { where: 'batch', names: [longName('b1')] }), [
    'batch_malformed',
    longName('b1'),
  ]);
  const letter = await commands.lrange(keys.dead_letter(longName('b1')), 0, -1);
  assert.deepEqual(letter, ['bob', list[1], '0', ...list]);
});

describe('sweep_gauges', () => {
  /** Calls the script until all is counted, and `between` after each call. Resolves with the calls and the repairs. */
  async function countAll(between: () => Promise<unknown> = async () => {}, token = 'carol') {
    let cuts = 0;
    for (let calls = 1, counted: Reply<'sweep_gauges'>['counted'] = []; ; calls++) {
      const reply = await redis.store.run('sweep_gauges', { what: 'batches', token, cuts, counted });
      if (reply.finished)
        return { calls, mended: reply.findings.flatMap(({ kind, name }) => [kind, String(name)]) };
      ({ cuts, counted } = reply);
      await between();
    }
  }

  let seeds = 0;
  const publish = (n: number) => bus.publish(nthWord(26 + seeds++), 'gizmos', Array(n).fill('e'));

  beforeEach(async () => {
    await bus.subscribe('carol', { topics: ['gizmos'], max: 1 });
    seeds = 0;
    // The first 1,000 events are one long batch, since a call does not open so many.
    await publish(1000);
    for (let n = 0; n < 15; n++) await publish(300);
  });

  test('counts a long queue in several calls', async () => {
    const { calls, mended } = await countAll();
    assert.ok(calls > 1, `${calls} calls`);
    assert.deepEqual(mended, []);
  });

  for (const [what, between] of Object.entries({
    'batches that come': () => publish(10),
    'batches that go, from the oldest': () => bus.dropQueue('carol', 10),
    'a long batch that is cut, while others go': async () => {
      const seed = nthWord(26 + seeds++);
      const { grants } = await bus.acquire(['w1'], { seed });
      for (const { job } of grants) await bus.ack('w1', job);
    },
    'an open batch that grows': async () => {
      await bus.subscribe('carol', { topics: ['gizmos'], max: 100, timeout: HOUR_MS });
      await publish(3);
    },
  })) {
    test(`is not misled by ${what}`, async () => {
      assert.deepEqual((await countAll(between)).mended, []);
      await redis.store.redis.hincrby(redis.store.keys.gauge_events(), 'carol', 2);
      assert.deepEqual((await countAll(between)).mended, ['events_miscounted', 'carol']);
      assert.deepEqual((await countAll()).mended, []);
    });
  }

  describe('is not misled by a join', () => {
    const joins = new JoinCalls(bus);
    const token = joinToken('orders', CLIENT);

    beforeEach(async () => {
      await redis.flush();
      await joins.put('orders', { sources: [{ topic: 'steps', count: 10_000 }] });
      await redis.store.redis.hset(redis.store.keys.subscriber(token), 'max_events', '3');
      const events = Array.from({ length: 600 }, () => joinEvent('steps', 'k'));
      for (let n = 0; n < 11; n++) await bus.publish(nthWord(52 + n), 'steps', events);
    });

    const countOne = () => joins.work('orders', 'w1', { slice: 1 });
    for (const [what, between] of Object.entries({
      'that counts events of a batch': countOne,
      'whose first 200 batches go, and that counts events of the next one': async () => {
        await bus.dropQueue(token, 200);
        await countOne();
      },
    })) {
      test(what, async () => {
        assert.deepEqual(await countAll(between, token), { calls: 2, mended: [] });
      });
    }
  });
});
