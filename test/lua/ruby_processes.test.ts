import assert from 'node:assert/strict';
import { beforeEach, describe, type TestContext, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { RubyWeb, RubyWorker } from '../../harness/redis/ruby_processes.ts';
import { RUBY_TOKEN, writeRubyRedis } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, nthWord } from '../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { BootError } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { lookForRuby } from '../../src/maintenance/ruby_watch.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { packJob } from '../../src/store/job.ts';

const LEASE_MS = 30_000;
const URL = 'https://a.example.com/w';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const takeOver = () => prepareStorage(redis.store, LEASE_MS, createLog('silent', {}));

/** Looks once for Ruby processes, as the worker process does every few seconds, and returns what it logged. */
async function watch(): Promise<string[]> {
  const { log, lines } = capturedLog();
  await redis.store.redis.del('ruby:watched');
  const parts = { partition: redis.store, leaseMs: LEASE_MS, log };
  const repair = async (rubyWorkers: number) => void (await sweep(redis.store, { rubyWorkers }));
  await lookForRuby({ ...parts, sweep: repair });
  return lines.map(({ level, msg }) => `${level} ${msg}`);
}

/** Delivers all ready batches by a worker of this bus. Resolves with the number of their events. */
async function deliverAll(): Promise<number> {
  const queue = new Queue(redis.store, 'main', {
    laneLimit: 10,
    laneLimitMax: 100,
    leaseMs: LEASE_MS,
    deliveryLog: 1000,
  });
  let events = 0;
  for (;;) {
    const [grant] = (await queue.acquire(['w1'])).grants;
    if (!grant) return events;
    events += grant.batch?.count ?? 0;
    await queue.ack({ grant, heal: 1, tookMs: 1 });
  }
}

/** Makes all scheduled jobs due, and instant. */
async function promote(): Promise<void> {
  const { redis: commands, keys } = redis.store;
  for (const job of await commands.zrangeBuffer(keys.jobs_scheduled('main'), '0', '-1'))
    await commands.zadd(keys.jobs_scheduled('main'), 1, job);
  await redis.store.run('schedule', { limit: 1000 });
}

/** Makes a Ruby worker that stops with the test. */
function rubyWorker(t: TestContext): RubyWorker {
  const worker = new RubyWorker(redis.store.redis);
  t.after(() => worker.stop());
  return worker;
}

beforeEach(async () => {
  await redis.flush();
  await writeRubyRedis(redis.store.redis);
  await redis.store.redis.hset(`subscriber:${RUBY_TOKEN}`, 'sent', 1);
});

describe('a takeover', () => {
  test('is refused while a Ruby worker lives, and changes nothing', async (t) => {
    const worker = rubyWorker(t);
    await worker.heartbeat();
    const before = await snapshot(redis.store);
    await assert.rejects(takeOver(), (error: Error) => {
      assert.ok(error instanceof BootError);
      assert.match(
        error.message,
        /^1 workers of the Ruby Routemaster use this Redis; the last was heard of 0 s ago\./,
      );
      assert.match(error.message, /Stop them all, and start this bus when they have been silent for 30 s/);
      return true;
    });
    assert.deepEqual(await snapshot(redis.store), before);
    await redis.store.redis.hset('workers', worker.id, Date.now() - LEASE_MS - 1000);
    await takeOver();
  });

  test('is not refused by workers of this bus, in a Redis that has lost its memory', async () => {
    await bus.acquire(['w1']);
    await bus.acquire(['x1'], { q: 'aux' });
    await takeOver();
    assert.equal(await redis.store.redis.get('schema'), '2');
  });
});

describe('a Ruby web process that still runs', () => {
  test('stores batches that are delivered when their job is due, and the log says so', async () => {
    await takeOver();
    await promote();
    await deliverAll();
    const web = new RubyWeb(redis.store.redis);
    for (let n = 1; n <= 3; n++) await web.publish('widgets', `${URL}/${n}`);
    await promote();
    assert.equal(await deliverAll(), 3);
    assert.deepEqual(await watch(), [
      '50 a Ruby process still writes here: stop it, as docs/migrating.md says',
    ]);
    assert.deepEqual(await watch(), []);
    await assertConsistent(redis.store);
    await assertNothingToSweep(redis.store);
  });

  test('may store a batch during a sweep, which leaves its job and its entry alone', async () => {
    await takeOver();
    const [bid = ''] = await new RubyWeb(redis.store.redis).publish('widgets', `${URL}/1`);
    const job = packJob('batch', [bid]);
    const repairs = [
      await redis.store.run('sweep_batches', { where: 'batches_index', names: [bid] }),
      await redis.store.run('sweep_jobs', { q: 'main', suspects: [{ job, bid }] }),
    ];
    assert.deepEqual(repairs, [[], []]);
    await promote();
    assert.equal(await deliverAll(), 5);
  });

  test('may leave batches without events, which are delivered', async () => {
    await takeOver();
    for (const bid of [longName('empty1'), longName('empty2')]) {
      await redis.store.redis.rpush(`batches:${bid}`, RUBY_TOKEN, 1_795_166_913_600, 0);
      await redis.store.redis.hincrby('batches:gauges:batch', RUBY_TOKEN, 1);
    }
    await sweep(redis.store);
    await promote();
    assert.equal(await deliverAll(), 4);
    await assertConsistent(redis.store);
  });

  test('never appends to a batch of this bus', async () => {
    await takeOver();
    await bus.publishAll('a', ['widgets', 'publisher--42', ['{"id":"1"}']]);
    const web = new RubyWeb(redis.store.redis);
    const [first] = await web.publish('widgets', `${URL}/1`);
    const [second] = await web.publish('widgets', `${URL}/2`);
    assert.equal(second, first, 'it appends to its own');
    // The sweep adopts the batch after the web process has read that it is current.
    const [third] = await web.publish('widgets', `${URL}/3`, () => sweep(redis.store));
    assert.notEqual(third, first);
    await sweep(redis.store);
    await assertConsistent(redis.store);
    await promote();
    // Four events of before, one of this bus, three of the Ruby web.
    assert.equal(await deliverAll(), 8);
    await assertNothingToSweep(redis.store);
  });

  test('may put the job of a batch after the batch was adopted and delivered', async () => {
    await takeOver();
    const [bid = ''] = await new RubyWeb(redis.store.redis).publish('widgets', `${URL}/1`);
    await redis.store.redis.del('jobs:scheduled:main', 'jobs:index:main');
    const [finding] = await sweep(redis.store);
    assert.deepEqual(finding, { kind: 'batch_of_ruby', name: bid });
    await promote();
    await deliverAll();
    await redis.store.redis.sadd(
      'jobs:index:main',
      Buffer.concat([Buffer.from('92a5626174636891b4', 'hex'), Buffer.from(bid)]),
    );
    await sweep(redis.store);
    await assertConsistent(redis.store);
  });
});

describe('a Ruby worker that still runs', () => {
  test('forgets jobs, which are given to this bus at once, and the log says so', async (t) => {
    await takeOver();
    await promote();
    const worker = rubyWorker(t);
    while (await worker.work(0.01));
    assert.equal(worker.delivered.length, 0);
    assert.equal(await redis.store.redis.exists('jobs:index:main'), 0, 'it has forgotten all jobs');
    assert.deepEqual(await watch(), [
      '50 a Ruby worker still takes jobs here, and forgets them: stop it, as docs/migrating.md says',
    ]);
    assert.equal(await worker.work(0.01), false, 'it does not get them again');
    assert.equal(await deliverAll(), 4);
    await sweep(redis.store);
    await assertConsistent(redis.store);
    await assertNothingToSweep(redis.store);
  });

  test('beside a Ruby web process delivers what that stored, or this bus does', async (t) => {
    await takeOver();
    await promote();
    let delivered = await deliverAll();
    const [web, worker] = [new RubyWeb(redis.store.redis), rubyWorker(t)];
    await redis.store.redis.hset(`subscriber:${RUBY_TOKEN}`, 'max_events', 1);
    for (let n = 1; n <= 20; n++) {
      await web.publish('widgets', `${URL}/${n}`);
      await bus.publishAll(nthWord(n), ['widgets', 'publisher--42', [`{"id":"${n}"}`]]);
      if (n % 5 === 0) delivered += await deliverAll();
      else await worker.work(0.01);
    }
    await watch();
    delivered += await deliverAll();
    const { gauges } = await bus.state();
    assert.deepEqual(gauges, { batches: {}, events: {} });
    assert.ok(worker.delivered.length > 0);
    assert.equal(delivered + worker.delivered.length, 4 + 20 + 20);
    await sweep(redis.store);
    await assertConsistent(redis.store);
  });
});
