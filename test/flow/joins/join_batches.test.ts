import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS, type Published } from '../../../harness/scripts/bus_inputs.ts';
import { beginBus, nameIn } from '../../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, joinEvent, type Rules } from '../../../harness/scripts/join_calls.ts';
import { subscribersIn } from '../../../harness/subscriptions.ts';
import { Clients } from '../../../src/authentication/client.ts';
import { NameKey } from '../../../src/authentication/name_key.ts';
import { PublicNames } from '../../../src/authentication/public_names.ts';
import type { Batch } from '../../../src/delivering/batch.ts';
import type { Grant } from '../../../src/delivering/grant.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { DONE, GIVEN_BACK } from '../../../src/delivering/settlement.ts';
import { StorageFull } from '../../../src/errors.ts';
import { JoinBatches } from '../../../src/flow/joins/join_batches.ts';
import { Joins } from '../../../src/flow/joins/joins.ts';
import { joinToken } from '../../../src/ids.ts';
import { Recorder } from '../../../src/metrics/recorder.ts';
import { Outbox } from '../../../src/publishing/outbox.ts';
import type { Arguments } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { TopicMarks } from '../../../src/subscribing/topic_marks.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);
const TOKEN = joinToken('order', CLIENT);
const RULES: Rules = { sources: [{ topic: 'paid', count: 2 }] };
const settings = {
  ...{ leaseMs: 30_000, laneLimit: 16, laneLimitMax: 64, deliveryLog: 1000 },
  ...{ maxJoins: 100, maxClientJoins: 100, maxTopics: 100, maxClientTopics: 100 },
  ...{ maxJoinKeys: 1000, maxJoinBytes: 1_000_000, maxOutboxBytes: 1000 },
};
const running = new AbortController().signal;
let counted: Record<string, number> = {};
let isShort = false;
let recorded = capturedLog();

function joinBatches(): JoinBatches {
  const { store } = redis;
  const { log } = recorded;
  const recorder = new Recorder({
    increment: (name, _tags, by = 1) => {
      counted[name] = (counted[name] ?? 0) + by;
    },
  });
  const guard = {
    maxBytes: 0,
    check: () => {
      if (isShort) throw new StorageFull();
      return undefined;
    },
  };
  const publicNames = new PublicNames(new Clients(store, []), new NameKey(store));
  return new JoinBatches({ partitions: new Partitions(store), guard, recorder, publicNames, settings, log });
}

async function publish(...events: string[]): Promise<void> {
  await bus.publishAll('a', ...events.map((text): Published => ['paid', 'pub', [text]]));
}

async function grant(): Promise<Grant & { batch: Batch }> {
  const queue = new Queue(redis.store, 'main', settings);
  await bus.addIdleWorkers();
  const [first] = (await queue.acquire(['w1'])).grants;
  assert.ok(first?.batch);
  return { ...first, batch: first.batch };
}

const isQueued = async () => (await redis.store.redis.exists(redis.store.keys.batches_queued(TOKEN))) === 1;
const field = (name: string) => redis.store.redis.hget(redis.store.keys.subscriber(TOKEN), name);

beforeEach(async () => {
  await redis.flush();
  counted = {};
  isShort = false;
  recorded = capturedLog();
});

describe('a batch of a join', () => {
  test('is counted, in slices if it is long, and ends its job', async () => {
    await joins.put('order', RULES);
    await publish(
      ...Array.from({ length: 95 }, (_, n) => joinEvent('paid', n % 10)),
      joinEvent('paid', null),
    );
    const settlement = await joinBatches().countBatch(await grant(), running);
    assert.deepEqual(settlement, { end: 'settled', held: true });
    assert.equal(await isQueued(), false);
    assert.deepEqual(
      [counted['joins.completed'], counted['joins.unkeyed'], counted['events.removed']],
      [45, 1, 96],
    );
    assert.equal(counted['events.published'], 45);
    await assertConsistent(redis.store);
  });

  test('is counted whatever numbers and how many values its events have', async () => {
    await joins.put('order', RULES);
    const data = `{"key":12345678901234567890,"values":[${Array(20_000).fill(1)}]}`;
    const event = `{"id":"e1","topic":"paid","type":"noop","url":"https://a.example","t":1,"data":${data}}`;
    await publish(event.replace('e1', 'e2'), event);
    assert.deepEqual(await joinBatches().countBatch(await grant(), running), { end: 'settled', held: true });
    assert.deepEqual([counted['joins.completed'], counted['joins.unkeyed']], [1, 0]);
  });

  test('is listed like a delivery, and is taken without an answer', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    const list = async () =>
      (await redis.store.run('list_deliveries', { tokens: [TOKEN], sinceMs: 0, limit: 9 })).entries;
    assert.deepEqual(
      (await list()).map(({ state }) => state),
      ['open'],
    );
    const held = await grant();
    assert.deepEqual(
      (await list()).map(({ state }) => state),
      ['in_flight'],
    );
    await joinBatches().countBatch(held, running);
    const [{ id, state, record } = {}, ...more] = await list();
    assert.deepEqual([id, state, more.length], [held.batch.bid, 'taken', 0]);
    const [, , , events, attempts, topics, , , status] = JSON.parse(`[${record}]`);
    assert.deepEqual([events, attempts, topics, status], [1, 1, { paid: 1 }, null]);
    await assertConsistent(redis.store);
  });

  test('may hold events that a Ruby Routemaster stored', async () => {
    await joins.put('order', { ...RULES, by: 'url' });
    await publish(joinEvent('paid', 1, 'e1'));
    const [bid = ''] = await redis.store.redis.zrange(redis.store.keys.batches_queued(TOKEN), '0', '-1');
    const legacy = encode(['e', { t: 1, o: 'paid', y: 'create', u: 'https://shop.example.com/e1' }]);
    await redis.store.redis.rpush(redis.store.keys.batch(bid), Buffer.from(legacy));
    await redis.store.redis.hincrby(redis.store.keys.gauge_events(), TOKEN, 1);
    await joinBatches().countBatch(await grant(), running);
    assert.equal(await field('completed'), '1');
  });

  test('waits while memory is short, which counts as no attempt', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    isShort = true;
    const held = await grant();
    const settlement = await joinBatches().countBatch(held, running);
    assert.deepEqual(settlement, {
      end: 'retry',
      retry: { delayMs: 1000, damage: 0, throttleMs: 0, isUncounted: true },
    });
    assert.ok(settlement.end === 'retry');
    await new Queue(redis.store, 'main', settings).nack(held, settlement.retry);
    const { batches, main } = await bus.state();
    assert.deepEqual([main.scheduled, batches.a1?.attempts], [['a1'], 0]);
    assert.equal(await field('health_points'), '100');
  });

  test('waits when Redis itself refuses what needs memory', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    const held = await grant();
    await redis.store.redis.config('SET', 'maxmemory', '1');
    try {
      assert.equal((await joinBatches().countBatch(held, running)).end, 'retry');
    } finally {
      await redis.store.redis.config('SET', 'maxmemory', '0');
    }
    assert.equal(await field('completed'), null);
  });

  test('is counted by the rules of now, also if they change while it is counted', async () => {
    await joins.put('order', RULES);
    const batches = joinBatches();
    await publish(joinEvent('paid', 1));
    const held = await grant();
    await joins.put('order', { sources: [{ topic: 'paid', count: 1 }] });
    assert.deepEqual(await batches.countBatch(held, running), { end: 'settled', held: true });
    assert.equal(await field('completed'), '1');
  });

  test('is given back, as far as it is not counted, when the process stops', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    assert.deepEqual(await joinBatches().countBatch(await grant(), AbortSignal.abort()), GIVEN_BACK);
  });

  test('is left alone if the worker lost its lease', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    const held = await grant();
    await bus.scrub(-1);
    assert.deepEqual(await joinBatches().countBatch(held, running), { end: 'settled', held: false });
    assert.equal(await isQueued(), true);
  });

  test('is deleted if its join is gone, or is another one of this name', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    const held = await grant();
    await redis.store.run('remove_subscriber', { token: TOKEN, series: [] });
    assert.deepEqual(await joinBatches().countBatch(held, running), DONE);
    await joins.put('order', RULES);
    assert.deepEqual(await joinBatches().countBatch(held, running), DONE);
  });

  test('becomes a dead letter if the join may not publish, with a reason for its owner', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    await redis.store.redis.hset(redis.store.keys.topic('ready'), 'publisher', 'other');
    const settlement = await joinBatches().countBatch(await grant(), running);
    assert.ok(settlement.end === 'dead');
    const { reason, attempt, damage, onEnd } = settlement.burial;
    assert.deepEqual([reason, damage], ['join_refused', 0]);
    assert.equal(attempt.reason, 'another client publishes to ready now');
    onEnd?.(false);
    assert.ok(recorded.says(/a join may not publish; its batch is a dead letter now/));
  });

  test('that cannot be decoded throws, so that it becomes a dead letter', async () => {
    await joins.put('order', RULES);
    await publish(joinEvent('paid', 1));
    const held = await grant();
    held.batch.pieces.push(Buffer.from([0xc1]));
    await assert.rejects(joinBatches().countBatch(held, running), RangeError);
  });
});

test('a join that is made again counts what comes from another partition while a batch of the former one is held', async () => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  await beginBus(partitions);
  const [partition, home] = partitions.all as [Partition, Partition];
  const [here, there] = [new Bus(() => partition), new Bus(() => home)];
  const [client, source] = [nameIn(partitions, 0, 'client'), nameIn(partitions, 1, 'paid')];
  const recorder = { published: () => {}, added: () => {}, joined: () => {}, removed: () => {} };
  const marks = new TopicMarks(partitions);
  const { log } = recorded;
  const outbox = new Outbox({ confirmed: partitions, recorder, marks, limits: PUBLISH_LIMITS, log });
  const publicNames = new PublicNames(new Clients(partitions.control, []), new NameKey(partitions.control));
  const guard = { check: () => undefined, maxBytes: 0 };
  const batches = new JoinBatches({ partitions, guard, recorder, publicNames, settings, log });
  const then = { topic: nameIn(partitions, 0, 'ready'), type: 'noop' } as const;
  const rules = {
    sources: [{ topic: source, count: 1 }],
    by: 'data.key',
    within: 60_000,
    then,
    on_expiry: null,
  };
  const put = () => new Joins(partitions, settings).put(client, 'order', rules);
  const publish = (id: string) => there.publish(id, source, [joinEvent(source, id, id)]);
  const take = async (worker: string) => {
    const [granted] = (await new Queue(partition, 'main', settings).acquire([worker])).grants;
    assert.ok(granted?.batch);
    return { ...granted, batch: granted.batch };
  };
  await put();
  await here.addIdleWorkers();
  await publish('e1');
  await outbox.flush(home, partition);
  const former = await take('w1');
  const token = joinToken('order', client);
  await subscribersIn(partitions, outbox).remove(token);
  const run = partition.run.bind(partition);
  partition.run = async (script, args) => {
    // An event is accepted when the source is marked, just before the join is made.
    if (script === 'put_join' && !(args as Arguments<'put_join'>).judgesOnly) await publish('e2');
    return run(script, args);
  };
  await put();
  await publish('e3');
  await outbox.flush(home, partition);
  assert.deepEqual(await batches.countBatch(former, running), DONE);
  const { worker, packed: job, lease, batch } = former;
  await partition.run('acquire', {
    ...{ q: 'main', slowMs: 1000, workers: [], kind: 'regular', uidSeed: 'cut', ...settings },
    finished: [{ worker, job, lease, bid: batch.bid, heal: 0, tookMs: 0 }],
  });
  assert.deepEqual(await batches.countBatch(await take('w2'), running), { end: 'settled', held: true });
  assert.equal(await partition.redis.hget(partition.keys.subscriber(token), 'completed'), '2');
});
