import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { shortName } from '../../harness/scripts/names.ts';
import { DEFAULTS } from '../../harness/subscriptions.ts';
import { DeadLetters } from '../../src/delivering/dead_letters.ts';
import { readGauges } from '../../src/metrics/gauges.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Subscriptions } from '../../src/subscribing/subscription.ts';
import { Topics } from '../../src/subscribing/topic.ts';

/** Two partitions: subscribers and topics are in the first or the second half of the alphabet. */
class Halves extends Partitions {
  override ofSubscriber = (token: string) => this.all[token < 'n' ? 0 : 1] as Partition;
  override ofTopic = (name: string) => this.all[name < 'n' ? 0 : 1] as Partition;
}

const redis = new TestStore();

test('listings, gauges and dead letters cover all partitions', async () => {
  const partitions = ['{0}:', '{1}:'].map((prefix) => new Partition(redis.store.redis, { prefix }));
  const halves = new Halves(...(partitions as [Partition, Partition]));
  for (const [token, topic, seed] of [
    ['bob', 'apples', 'a'],
    ['zoe', 'zebras', 'z'],
  ] as const) {
    const bus = new Bus(() => halves.ofSubscriber(token));
    await bus.subscribe(token, { topics: [topic], max: 1 });
    await bus.publish(seed, topic, ['e1']);
    await buryAll(bus.store);
    await bus.publish(`${seed}b`, topic, ['e2', 'e3']);
  }

  const letters = new DeadLetters(halves, DEFAULTS, () => {});
  const subscribers = await new Subscriptions(halves, DEFAULTS, letters).list();
  assert.deepEqual(
    subscribers.map(({ subscriber, events }) => [subscriber, events.queued]),
    [
      ['bob', 2],
      ['zoe', 2],
    ],
  );
  assert.deepEqual(
    (await new Topics(halves).list()).map(({ name, events }) => [name, events]),
    [
      ['apples', 3],
      ['zebras', 3],
    ],
  );
  const gauges = await readGauges(halves, { redisMaxBytes: 0, redisMinFreeBytes: 0 });
  assert.equal(gauges.queues.find(({ queue }) => queue === 'main')?.instant, 4);
  assert.equal(gauges.subscribers.length, 2);

  const { letters: page, next } = await letters.list(undefined, 1);
  assert.deepEqual(
    page.map(({ id }) => shortName(id)),
    ['z1'],
    'the newest first',
  );
  const rest = await letters.list(undefined, 1, next);
  assert.deepEqual(
    rest.letters.map(({ id }) => shortName(id)),
    ['a1'],
  );
  assert.equal(rest.next, undefined);
  const [newest] = page;
  assert.equal((await letters.find(newest?.id ?? ''))?.subscriber, 'zoe');
  assert.equal(await letters.find(newest?.id ?? '', 'bob'), undefined);
  assert.equal(await letters.retry(newest?.id ?? ''), 'ok');
  assert.equal(await letters.purge(newest?.id ?? ''), false);
});
