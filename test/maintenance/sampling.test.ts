import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls } from '../../harness/scripts/join_calls.ts';
import { readConfig } from '../../src/config.ts';
import { joinToken } from '../../src/ids.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { History, STEPS } from '../../src/metrics/history.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { seriesOf } from '../../src/metrics/series.ts';
import { unpackStandings } from '../../src/metrics/standings.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

async function count(record: (recorder: Recorder) => void): Promise<void> {
  const counters = new Counters(new Partitions(redis.store), {
    flushIntervalMs: 1000,
    log: capturedLog().log,
  });
  record(new Recorder(counters));
  await counters.flush();
}

const sample = (env: Record<string, string> = {}) =>
  sampleJob({
    config: readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ...env }),
    partitions: new Partitions(redis.store),
    log: capturedLog().log,
  })();

const keyOf = (subject: string) => redis.store.keys.history_fine(subject);
const entries = async (subject: string) =>
  (await redis.store.redis.lrangeBuffer(keyOf(subject), 0, -1)).map((each) => decode(each) as number[]);
const figures = async (subject: string) => (await entries(subject)).map(([, ...rest]) => rest);
const subjects = async () =>
  (await redis.store.redis.keys(keyOf('*'))).map((key) => key.slice(keyOf('').length)).sort();

/**
 * Makes the last entries, and the standings, look some steps older, as if time had passed; with negative `steps`, as if
 * Redis's clock had been set back.
 */
async function wait(steps = 1): Promise<void> {
  const standings = redis.store.keys.standings();
  const { atMs, ...rest } = JSON.parse((await redis.store.redis.get(standings)) ?? '');
  await redis.store.redis.set(standings, JSON.stringify({ ...rest, atMs: atMs - steps * STEPS.fine.ms }));
  for (const key of await redis.store.redis.keys(`${redis.store.prefix}history:*`)) {
    const [slot = 0, ...rest] = decode(
      (await redis.store.redis.lindexBuffer(key, -1)) ?? Buffer.of(),
    ) as number[];
    await redis.store.redis.lset(key, -1, Buffer.from(encode([slot - steps, ...rest])));
  }
}

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { timeout: 60_000, max: 1000 });
  await bus.publish('shop', 'widgets', ['one', 'two']);
  await count((recorder) => {
    recorder.published('widgets', 2, 80);
    recorder.delivered({ subscriber: 'alice', status: 'success', events: 5, durationMs: 7, latencyMs: 60 });
    recorder.delivered({ subscriber: 'alice', status: 'failure', events: 1, durationMs: 7, latencyMs: 60 });
  });
});
afterEach(() => assertConsistent(redis.store));

describe('a sample', () => {
  test('has the figures of the bus, of topics and of subscribers', async () => {
    await sample();
    assert.deepEqual(await subjects(), ['bus', 'subscriber:alice', 'topic:widgets']);
    const [[published, delivered, failed, latencyMs, latencies, queued, oldest, memory, ...states] = []] =
      await figures('bus');
    assert.deepEqual([published, delivered, failed, latencyMs, latencies, queued], [2, 5, 1, 60, 1, 2]);
    assert.ok(Number(oldest) >= 0 && Number(memory) > 0);
    assert.deepEqual(states, [1, 0, 0, 0, 0]);
    assert.deepEqual((await figures('subscriber:alice'))[0]?.slice(0, 3), [5, 1, 2]);
    assert.deepEqual(await figures('topic:widgets'), [[2]]);
  });

  test('counts a subscriber as failing while its health is low and something is queued for it', async () => {
    const { keys, redis: client } = redis.store;
    await bus.subscribe('bob', { topics: ['others'] });
    for (const token of ['alice', 'bob']) await client.hset(keys.subscriber(token), 'health_points', 90);
    await sample();
    const states = (await figures('bus'))[0]?.slice(-5);
    assert.deepEqual(states, [2, 1, 0, 0, 0]);
  });

  test('has how many events were dropped, those that waited for their time included', async () => {
    await count((recorder) => {
      recorder.autodropped('alice', 4);
      recorder.delayedDropped('widgets', 3);
    });
    await sample();
    assert.equal((await new History(new Partitions(redis.store)).latest())?.figures.dropped, 7);
  });

  test('counts the dead letters of all subscribers', async () => {
    await bus.subscribe('bob', { max: 1, timeout: 0 });
    await bus.publish('dead', 'widgets', ['three', 'four']);
    await buryAll(redis.store);
    await sample();
    const latest = await new History(new Partitions(redis.store)).latest();
    assert.equal(latest?.figures.deadLetters, 2);
  });

  test('leaves out the subscribers and histories that another program has written', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.sadd(keys.subscribers(), 'bob');
    await commands.set(keys.subscriber('bob'), 'not a hash');
    await commands.set(keyOf('subscriber:alice'), 'not a list');
    await sample();
    assert.equal((await figures('bus'))[0]?.[0], 2, 'published');
    assert.deepEqual(await figures('topic:widgets'), [[2]]);
    await commands.srem(keys.subscribers(), 'bob');
    await commands.del(keys.subscriber('bob'), keyOf('subscriber:alice'));
  });

  test('is taken by one of the processes that queue the job', async () => {
    await sample();
    const standings = () => redis.store.redis.get(redis.store.keys.standings());
    const before = await standings();
    await count((recorder) => recorder.published('widgets', 3, 80));
    await sample();
    assert.equal(await standings(), before);
    assert.deepEqual(await figures('topic:widgets'), [[2]]);
  });

  test('that is repeated within its step changes no history', async () => {
    await sample();
    await redis.store.redis.del(redis.store.keys.standings());
    await sample();
    assert.ok((await entries('bus')).length <= 2);
    assert.equal((await entries('topic:widgets')).length, 1);
  });

  test('adds an entry for the bus, and for what has changed', async () => {
    await sample();
    await wait();
    await count((recorder) => recorder.published('widgets', 3, 80));
    await sample();
    assert.equal((await entries('bus')).length, 2);
    assert.deepEqual(await figures('topic:widgets'), [[2], [5]]);
    await wait();
    await sample();
    assert.equal((await entries('bus')).length, 3);
    assert.equal((await entries('topic:widgets')).length, 2);
  });

  test('keeps no more than a step of each', async () => {
    const old = Array.from({ length: 500 }, (_, slot) => Buffer.from(encode([slot, 1])));
    await redis.store.redis.rpush(keyOf('topic:widgets'), ...old);
    await sample();
    assert.equal((await entries('topic:widgets')).length, STEPS.fine.kept);
    assert.ok((await redis.store.redis.ttl(keyOf('topic:widgets'))) > 86_400);
  });

  test('has the topics and subscribers with the most events alone', async () => {
    await bus.publish('shop', 'busier', ['one']);
    await count((recorder) => recorder.published('busier', 9, 80));
    await sample({ ROUTEMASTER_HISTORY_SUBJECTS: '1' });
    assert.deepEqual(await subjects(), ['bus', 'subscriber:alice', 'topic:busier']);
    await wait();
    await redis.store.redis.del(...(await redis.store.redis.keys(`${redis.store.prefix}history:*`)));
    await sample({ ROUTEMASTER_HISTORY_SUBJECTS: '0' });
    assert.deepEqual(await subjects(), ['bus']);
  });
});

describe('after Redis’s clock was set back', () => {
  test('a sample replaces the entries that seem to be of a later time', async () => {
    await sample();
    await wait();
    await count((recorder) => recorder.published('widgets', 3, 80));
    await sample();
    await wait(-100);
    await count((recorder) => recorder.published('widgets', 4, 80));
    await sample();
    assert.deepEqual(await figures('topic:widgets'), [[2], [9]]);
    assert.deepEqual(
      (await figures('bus')).map(([published]) => published),
      [2, 9],
    );
    const slots = (await entries('bus')).map(([slot]) => Number(slot));
    assert.ok((slots[1] ?? 0) - (slots[0] ?? 0) <= 2, `entries of the slots ${slots}`);
  });

  test('a history of later entries alone begins anew', async () => {
    await sample();
    await wait(-100);
    await count((recorder) => recorder.published('widgets', 4, 80));
    await sample();
    assert.deepEqual(await figures('topic:widgets'), [[6]]);
    assert.equal((await new History(new Partitions(redis.store)).latest())?.figures.published, 6);
  });

  test('no rate is calculated from the time between the samples', async () => {
    await sample();
    await wait(-100);
    await count((recorder) => recorder.published('widgets', 400, 80));
    await sample();
    const standings = unpackStandings((await redis.store.redis.get(redis.store.keys.standings())) ?? '');
    assert.deepEqual(
      standings?.topics.map(({ published, totalPublished }) => [published, totalPublished]),
      [[0, 402]],
    );
  });
});

describe('a history that begins', () => {
  const lastRate = async (kind: 'topic' | 'subscriber', name: string, metric: 'published' | 'delivered') => {
    const { metrics } = await new History(new Partitions(redis.store)).read(kind, name, '1h', metric);
    return metrics[metric]?.values.findLast((value) => value !== null);
  };
  const delivered = (subscriber: string, events: number) =>
    count((recorder) =>
      recorder.delivered({ subscriber, status: 'success', events, durationMs: 7, latencyMs: 60 }),
    );

  test('has the first events of a new topic, and of new and idle subscribers and joins', async () => {
    const putJoin = (name: string) =>
      new JoinCalls(bus).put(name, {
        sources: [{ topic: 'paid', count: 1 }],
        then: { topic: `joined_${name}`, type: 'update' },
      });
    await bus.subscribe('idle', { topics: ['others'] });
    await putJoin('idle');
    await sample();
    await wait();
    await bus.subscribe('bob', { topics: ['fresh'] });
    await putJoin('fresh');
    await bus.publish('next', 'fresh', ['one']);
    await count((recorder) => recorder.published('fresh', 20, 80));
    const subscribers = ['bob', 'idle', joinToken('fresh', CLIENT), joinToken('idle', CLIENT)];
    for (const subscriber of subscribers) await delivered(subscriber, 30);
    await sample();
    assert.deepEqual(await figures('topic:fresh'), [[0], [20]]);
    assert.equal(await lastRate('topic', 'fresh', 'published'), 2);
    for (const subscriber of subscribers)
      assert.equal(await lastRate('subscriber', subscriber, 'delivered'), 3, subscriber);
  });

  test('counts from the figures of the last sample if its topic or subscriber was not among the busiest', async () => {
    await bus.subscribe('bob', { topics: ['others'] });
    await bus.publish('next', 'others', ['one']);
    await count((recorder) => recorder.published('others', 1, 80));
    await delivered('bob', 2);
    await sample({ ROUTEMASTER_HISTORY_SUBJECTS: '1' });
    assert.deepEqual(await subjects(), ['bus', 'subscriber:alice', 'topic:widgets']);
    await wait();
    await count((recorder) => recorder.published('others', 20, 80));
    await delivered('bob', 30);
    await sample({ ROUTEMASTER_HISTORY_SUBJECTS: '1' });
    assert.deepEqual(await figures('topic:others'), [[1], [21]]);
    assert.deepEqual(
      (await figures('subscriber:bob')).map(([total]) => total),
      [2, 32],
    );
  });

  test('begins with the last sample also if that was taken by a clock that is ahead', async () => {
    const beforeMs = Number((await redis.store.redis.time())[0]) * 1000 + 5 * STEPS.fine.ms;
    const kept = { fineMs: STEPS.fine.ms, fineKept: 9, coarseMs: STEPS.coarse.ms, coarseKept: 9 };
    const samples = [{ topic: 'widgets', figures: [5], before: [2] }];
    await redis.store.run('sample', { ...kept, beforeMs, samples });
    assert.deepEqual((await figures('topic:widgets'))[0], [2]);
  });

  test('has one entry if the last sample is not known', async () => {
    await sample();
    await redis.store.redis.del(redis.store.keys.standings());
    await bus.publish('next', 'fresh', ['one']);
    await count((recorder) => recorder.published('fresh', 20, 80));
    await sample();
    assert.deepEqual(await figures('topic:fresh'), [[20]]);
  });
});

describe('what is removed', () => {
  test('loses its history, and a late sample does not bring it back', async () => {
    await sample();
    await redis.store.run('remove_topic', { topic: 'widgets', series: seriesOf({ topic: 'widgets' }) });
    await redis.store.run('remove_subscriber', {
      token: 'alice',
      series: seriesOf({ subscriber: 'alice' }),
    });
    assert.deepEqual(await subjects(), ['bus']);
    const kept = { fineMs: 10_000, fineKept: 9, coarseMs: 300_000, coarseKept: 9, beforeMs: 0 };
    const samples = [
      { topic: 'widgets', figures: [1], before: [0] },
      { subscriber: 'alice', figures: [1, 2, 3, 4], before: [0, 0, 0, 0] },
    ];
    await redis.store.run('sample', { ...kept, samples });
    assert.deepEqual(await subjects(), ['bus']);
  });
});
