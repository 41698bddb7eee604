import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDelayed } from '../../harness/scripts/delayed.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { NO_OUTBOX } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { Autodrop } from '../../src/maintenance/autodrop.ts';
import { delayedDropOrders } from '../../src/maintenance/delayed_drop.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { delayedCounts } from '../../src/store/delayed_counts.ts';
import { infoNumber, readMemory } from '../../src/store/memory.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Topics } from '../../src/subscribing/topic.ts';
import { sumOf } from '../../src/sum.ts';

const MB = 1024 * 1024;
const HOUR_MS = 3_600_000;
/** The high mark is at 14 MB, the low mark at 13 MB. */
const settings = { redisMaxBytes: 15 * MB, redisMinFreeBytes: MB };

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const memory = () => readMemory(redis.store, settings);

/** Redis sums up the buffers of its clients once a second. Until then the memory of the data is only known roughly. */
const buffersAreSummedUp = async () =>
  infoNumber(await redis.store.redis.info('memory'), 'mem_clients_normal') < MB;

beforeEach(async () => {
  await redis.flush();
  await until(async () => (await memory()).used < 3 * MB);
});
afterEach(() => assertConsistent(redis.store));

describe('delayedCuts', () => {
  const holding = (topic: string, client: string, events: number, bytes: number) => ({
    topic,
    client,
    events,
    bytes,
  });

  test('takes from the clients that hold most, the same part of each of their topics', () => {
    const holdings = [
      holding('a', 'shop', 100, 1000),
      holding('b', 'shop', 300, 3000),
      holding('c', 'mill', 100, 1000),
    ];
    assert.deepEqual(delayedDropOrders(holdings, 2000), [
      { topic: 'a', maxDeleted: 50 },
      { topic: 'b', maxDeleted: 150 },
    ]);
  });

  test('takes all that there is, and no more', () => {
    assert.deepEqual(delayedDropOrders([holding('a', 'shop', 7, 700)], 9000), [
      { topic: 'a', maxDeleted: 7 },
    ]);
    assert.deepEqual(delayedDropOrders([], 9000), []);
  });
});

describe('the job autodrop', () => {
  /** Publishes delayed events of 2 kB until Redis uses this much memory. */
  async function delay(client: string, mb: number): Promise<void> {
    const id = (i: number, n: number) => `${client}-${i}-${n}`;
    const usedBytes = async () => {
      await until(buffersAreSummedUp);
      return (await memory()).used;
    };
    for (let i = 0; (await usedBytes()) < mb * MB; i++) {
      const events = Array.from({ length: 100 }, (_, n) => ({ id: id(i, n), delay: HOUR_MS + i }));
      await bus.delay(
        'a',
        `topic_of_${client}`,
        events.map((each) => ({ ...each, text: 'x'.repeat(2000) })),
        { client },
      );
    }
  }

  async function run() {
    await until(buffersAreSummedUp);
    const { log, lines } = capturedLog();
    const counted: Record<string, number> = {};
    const increment = (name: string, { topic }: Record<string, string>, by = 1) => {
      counted[`${name} ${topic ?? ''}`] = (counted[`${name} ${topic ?? ''}`] ?? 0) + by;
    };
    const publicNames = new PublicNames(new Clients(redis.store, []), new NameKey(redis.store));
    const partitions = new Partitions(redis.store);
    const parts = {
      partition: redis.store,
      partitions,
      publicNames,
      recorder: new Recorder({ increment }),
      log,
    };
    await new Autodrop(parts, { ...settings, dropPolicy: 'fair', deliveryLog: 1000 }).run(
      new AbortController().signal,
    );
    return { lines, counted };
  }
  const count = async () => Object.fromEntries(await delayedCounts(redis.store));

  test('drops no delayed events if dropping batches is enough', async () => {
    await bus.subscribe('alice');
    await delay('shop', 5);
    const before = await count();
    for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
      await bus.publish(nthWord(i), 'widgets', Array(100).fill('x'.repeat(1000)));
    await run();
    assert.deepEqual(await count(), before);
    await until(buffersAreSummedUp);
    assert.ok((await memory()).used <= 13.2 * MB);
  });

  test('drops the last delayed events of who holds most, if all batches are not enough, and notes them', async () => {
    await bus.subscribe('alice');
    await delay('mill', 4);
    await delay('shop', 15.2);
    await bus.publish('b', 'widgets', Array(500).fill('x'.repeat(1000)));
    const before = await count();
    const { lines, counted } = await run();
    const after = await count();
    await until(buffersAreSummedUp);
    const { used } = await memory();
    assert.ok(used <= 13.3 * MB && used > 12.5 * MB, `${used / MB} MB are left`);
    assert.deepEqual((await bus.state()).batches, {}, 'batches went first');
    assert.equal(after.topic_of_mill, before.topic_of_mill);
    const dropped = (before.topic_of_shop ?? 0) - (after.topic_of_shop ?? 0);
    assert.ok(dropped > 100);
    assert.equal(counted['delayed.dropped topic_of_shop'], dropped);
    // Each plan has a line of its own.
    const logged = lines.filter(
      ({ msg, topic }) => msg === 'dropped delayed events' && topic === 'topic_of_shop',
    );
    assert.equal(sumOf(logged.map(({ events }) => Number(events))), dropped);
    const topic = (await new Topics(new Partitions(redis.store), NO_OUTBOX).list()).find(
      ({ name }) => name === 'topic_of_shop',
    );
    const last = (await readDelayed(redis.store)).topic_of_shop?.at(-1)?.dueMs ?? 0;
    assert.equal(topic?.delayed, after.topic_of_shop);
    assert.equal(topic?.dropped?.events, dropped);
    assert.ok(topic.dropped.from >= last && topic.dropped.to > topic.dropped.from);
  });
});
