import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { RUBY_EVENT } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { sweepJob } from '../../src/maintenance/sweep_job.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { LAYOUT } from '../../src/store/keys.ts';
import { Partition } from '../../src/store/partition.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const TOKEN_ONLY = 'legacy--0123456789abcdef';
const PARTS = { q: 'main', bid: longName('a1'), topic: 'widgets', name: 'daily', worker: 'w1' };
const [WARN, ERROR] = [40, 50];

beforeEach(async () => {
  await redis.flush();
  await new Clients(redis.store, []).register('legacy', TOKEN_ONLY);
  await bus.subscribe(TOKEN_ONLY, { timeout: 60_000 });
  await bus.publish('a', 'widgets', ['e1']);
});

async function run(partition = redis.store) {
  const { log, lines } = capturedLog();
  const counted: string[] = [];
  const increment = (name: string, tags: Record<string, string>) => counted.push(`${name} ${tags.kind}`);
  const publicNames = new PublicNames(new Clients(partition, []), new NameKey(partition));
  const job = sweepJob({ partition, publicNames, recorder: new Recorder({ increment }), log });
  const error = await job(new AbortController().signal).catch((error: Error) => error);
  return { error, counted, lines: lines.map(({ time, ...line }) => line) };
}

describe('the job sweep', () => {
  test('logs nothing if nothing is wrong', async () => {
    assert.deepEqual(await run(), { error: undefined, counted: [], lines: [] });
  });

  test('warns of each finding and counts it, without showing a token that is a credential', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.zrem(keys.jobs_scheduled('main'), packNamed('a1'));
    await commands.hincrby(keys.gauge_events(), TOKEN_ONLY, 5);
    const { error, counted, lines } = await run();
    assert.equal(error, undefined);
    assert.deepEqual(counted, ['sweep.findings job_in_no_state', 'sweep.findings events_miscounted']);
    const [first, second] = lines;
    const msg = 'the sweep found an inconsistency and repaired it';
    assert.deepEqual(first, { level: WARN, kind: 'job_in_no_state', job: longName('a1'), msg });
    assert.match(String(second?.subscriber), /^legacy\.[0-9a-f]{16}$/);
    assert.deepEqual(second, { level: WARN, kind: 'events_miscounted', subscriber: second?.subscriber, msg });
    await assertNothingToSweep(redis.store);
  });

  test('names a trigger and its client, without showing a token that is a credential', async () => {
    await putTrigger(redis.store, 'daily', { client: TOKEN_ONLY, topic: 'days', nextAt: 1_999_000_000_000 });
    await redis.store.redis.del(redis.store.keys.triggers_due());
    const [line] = (await run()).lines;
    assert.match(String(line?.client), /^legacy\.[0-9a-f]{16}$/);
    const msg = 'the sweep found an inconsistency and repaired it';
    const expected = { level: WARN, kind: 'trigger_misplaced', trigger: 'daily', client: line?.client, msg };
    assert.deepEqual(line, expected);
  });

  test('logs one line of all batches that a Ruby process has stored', async () => {
    for (const name of ['r1', 'r2', 'r3'])
      await redis.store.redis.rpush(
        `batches:${longName(name)}`,
        TOKEN_ONLY,
        1_795_166_914_000,
        0,
        RUBY_EVENT,
      );
    const { lines } = await run();
    const msg = 'a Ruby process still writes here: the sweep adopted batches that it stored';
    assert.deepEqual(lines, [{ level: ERROR, batches: 3, msg }]);
  });

  test('logs an error if it cannot mend a finding', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.rpush(keys.batch(longName('b1')), 'nobody');
    const { counted, lines } = await run();
    assert.deepEqual(counted.slice(0, 1), ['sweep.findings batch_unreadable']);
    assert.deepEqual(lines[0], {
      level: ERROR,
      kind: 'batch_unreadable',
      bid: longName('b1'),
      msg: 'the sweep found an inconsistency that it cannot repair',
    });
  });

  test('names the keys that another program has written, without showing a token', async () => {
    const { redis: commands, keys } = redis.store;
    for (const token of [TOKEN_ONLY, 'other']) await commands.set(keys.batches_retrying(token), 'x');
    const { error, lines } = await run();
    assert.match(String(error), /WRONGTYPE/);
    const [line] = lines;
    assert.equal(line?.level, ERROR);
    assert.deepEqual(line?.keys, ['batches:retrying:{token} is a string instead of a zset (2 keys)']);
    assert.match(String(line?.msg), /another program has written keys of the bus/);
  });

  for (const [name, { pattern, type }] of Object.entries(LAYOUT)) {
    // What counts the events of a subscriber needs these.
    if (['gauge_events', 'gauge_batches', 'batches_open'].includes(name)) continue;
    test(`mends the rest if another program has written a ${type} ${pattern}`, async () => {
      const { redis: commands, keys } = redis.store;
      await putTrigger(redis.store, 'daily', {
        client: TOKEN_ONLY,
        topic: 'days',
        nextAt: 1_999_000_000_000,
      });
      await bus.subscribe('bob', { topics: ['gadgets'] });
      await bus.publish('b', 'gadgets', ['e1']);
      const token = name === 'subscriber_topics' ? 'other' : TOKEN_ONLY;
      const key = pattern.replaceAll(/\{(\w+)\}/g, (_, part: string) => ({ ...PARTS, token })[part] ?? 'x');
      await commands.del(key);
      await (type === 'string' ? commands.rpush(key, 'x') : commands.set(key, 'x'));
      await commands.hincrby(keys.gauge_events(), 'bob', 5);
      const { counted } = await run();
      assert.ok(counted.includes('sweep.findings events_miscounted'), String(counted));
      assert.equal(await commands.hget(keys.gauge_events(), 'bob'), '1');
    });
  }

  test('reports what it mended even if Redis cuts it off', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.zrem(keys.batches_index(), longName('a1'));
    const cut = new Error('cut off');
    const store = new Partition(redis.store.redis);
    const runScript = store.run.bind(store);
    store.run = (name, args) => (name === 'sweep_gauges' ? Promise.reject(cut) : runScript(name, args));
    const { error, counted, lines } = await run(store);
    assert.equal(error, cut);
    assert.deepEqual(counted, ['sweep.findings batch_unindexed']);
    assert.equal(lines.length, 1);
  });
});
