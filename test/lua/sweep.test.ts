import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { writes } from '../../harness/scripts/sweep.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;

type Script = 'sweep_batches' | 'sweep_jobs' | 'sweep_workers' | 'sweep_lanes' | 'sweep_gauges';

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

test('sweep_gauges leaves the gauge of events of a queue that is too long to be counted', async () => {
  const { redis: commands, keys } = redis.store;
  const gauges = () =>
    Promise.all([keys.gauge_batches(), keys.gauge_events()].map((key) => commands.hget(key, 'alice')));
  const sweepGauges = () => mended('sweep_gauges', { what: 'batches', token: 'alice' });
  assert.deepEqual(await sweepGauges(), []);
  await commands.hincrby(keys.gauge_events(), 'alice', 2);
  await commands.zadd(
    keys.batches_queued('alice'),
    ...Array.from({ length: 10_000 }, (_, n) => [n, `x${n}`]).flat(),
  );
  assert.deepEqual(await sweepGauges(), ['batches_miscounted', 'alice']);
  assert.deepEqual(await gauges(), ['10004', '6']);
  await commands.zremrangebyscore(keys.batches_queued('alice'), 0, 3);
  assert.deepEqual(await sweepGauges(), ['events_miscounted', 'alice', 'batches_miscounted', 'alice']);
  assert.deepEqual(await gauges(), ['10000', '4']);
});
