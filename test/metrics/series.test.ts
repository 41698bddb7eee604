import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { NO_OUTBOX, subscribersIn } from '../../harness/subscriptions.ts';
import { createLog } from '../../src/log.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { packField, readCounts } from '../../src/metrics/counter_hash.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Datadog } from '../../src/metrics/datadog.ts';
import type { Figure } from '../../src/metrics/figures.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Topics } from '../../src/subscribing/topic.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const log = createLog('silent', {});
const topics = () => new Topics(new Partitions(redis.store), NO_OUTBOX);

/** Counts each counter that is about a topic or a subscriber. */
async function countAll(
  counters = new Counters(new Partitions(redis.store), { flushIntervalMs: 1000, log }),
): Promise<void> {
  const recorder = new Recorder(counters);
  recorder.published('widgets', 2, 300);
  recorder.added('alice', 2);
  recorder.removed('alice', 3);
  recorder.autodropped('alice', 4);
  for (const reason of ['max_attempts', 'max_age', 'failed_in_bus']) recorder.buried('alice', reason, 5);
  recorder.firstAttempted('alice', 6);
  for (const status of ['success', 'failure'] as const)
    recorder.delivered({ subscriber: 'alice', status, events: 7, durationMs: 8, latencyMs: 9 });
  await counters.flush();
}

/** Resolves with the sum of each counter, and the tags of the counters that are about a topic or a subscriber. */
async function counts() {
  const all = (await readCounts(new Partitions(redis.store), log)).counts;
  const sums: Record<string, number> = {};
  for (const { name, value } of all) sums[name] = (sums[name] ?? 0) + value;
  const subjects = all.flatMap(({ tags }) => tags.topic ?? tags.queue ?? []);
  return { sums, subjects: [...new Set(subjects)].sort() };
}

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice');
  await bus.publish('a', 'widgets', ['e1']);
});

describe('the counts of what is removed', () => {
  test('move to totals, and their sums stay', async () => {
    await countAll();
    const before = await counts();
    assert.deepEqual(before.subjects, ['alice', 'widgets']);
    await topics().remove('widgets');
    assert.deepEqual(await counts(), { ...before, subjects: ['(removed)', 'alice'] });
    await subscribersIn(new Partitions(redis.store)).remove('alice');
    assert.deepEqual(await counts(), { ...before, subjects: ['(removed)'] });
  });

  test('are added to the totals if they are flushed later', async () => {
    await countAll();
    const { sums } = await counts();
    await topics().remove('widgets');
    await subscribersIn(new Partitions(redis.store)).remove('alice');
    await countAll();
    const after = await counts();
    assert.deepEqual(after.subjects, ['(removed)']);
    for (const [name, sum] of Object.entries(after.sums)) assert.equal(sum, 2 * (sums[name] ?? 0), name);
  });

  test('begin anew with a topic of the same name', async () => {
    await countAll();
    await topics().remove('widgets');
    await bus.publish('b', 'widgets', ['e2']);
    await countAll();
    const published = (await readCounts(new Partitions(redis.store), log)).counts.filter(
      ({ name }) => name === 'events.published',
    );
    assert.deepEqual(published.map(({ tags, value }) => [tags.topic, value]).sort(), [
      ['(removed)', 2],
      ['widgets', 2],
    ]);
  });

  test('are not sent to the metric service again as part of a total', async () => {
    await countAll();
    const { redis: raw, keys } = redis.store;
    const figures = (await readCounts(new Partitions(redis.store), log)).counts.map((count) => ({
      ...count,
      kind: 'counter' as const,
    }));
    const datadog = new Datadog({ host: '127.0.0.1', port: 9 }, new Partitions(redis.store));
    await datadog.send(async () => figures as Figure[]);
    await topics().remove('widgets');
    await subscribersIn(new Partitions(redis.store)).remove('alice');
    const sent = await raw.hgetall(keys.counters_reported());
    assert.ok(Object.keys(sent).length > 20);
    assert.deepEqual(sent, await raw.hgetall(keys.counters()));
  });
});

test('a sweep moves the counts of what an earlier release removed, however they are packed', async () => {
  const { redis: raw, keys } = redis.store;
  await countAll();
  const before = await counts();
  for (let n = 0; n < 1000; n++)
    await raw.hset(keys.counters(), packField('events.published', { topic: `gone_${n}` }), 2);
  const inBytes = packField('events.bytes', { topic: 'gone' })
    .toString('hex')
    .replace('a4676f6e65', 'c404676f6e65');
  await raw.hset(keys.counters(), Buffer.from(inBytes, 'hex'), 5, 'nonsense', 7);
  await raw.hset(keys.counters_reported(), packField('events.published', { topic: 'gone_1' }), 1);
  const scrubbed = packField('jobs.scrubbed', { queue: 'main' });
  await raw.hset(keys.counters(), scrubbed, 1);
  assert.deepEqual(await sweep(redis.store), []);
  const { sums, subjects } = await counts();
  assert.deepEqual(subjects, ['(removed)', 'alice', 'main', 'widgets']);
  assert.equal(sums['events.published'], (before.sums['events.published'] ?? 0) + 2000);
  assert.equal(sums['events.bytes'], (before.sums['events.bytes'] ?? 0) + 5);
  assert.deepEqual(await raw.hvals(keys.counters_reported()), ['1']);
});
