import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../../harness/scripts/bus_inputs.ts';
import { beginBus, nameIn } from '../../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, joinEvent, type Rules } from '../../../harness/scripts/join_calls.ts';
import { NO_OUTBOX } from '../../../harness/subscriptions.ts';
import { until } from '../../../harness/until.ts';
import { Clients } from '../../../src/authentication/client.ts';
import { NameKey } from '../../../src/authentication/name_key.ts';
import { PublicNames } from '../../../src/authentication/public_names.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { StorageFull, StorageUnavailable } from '../../../src/errors.ts';
import { JoinBatches } from '../../../src/flow/joins/join_batches.ts';
import { joinExpiry } from '../../../src/flow/joins/join_expiry.ts';
import { Joins } from '../../../src/flow/joins/joins.ts';
import { joinToken } from '../../../src/ids.ts';
import { Recorder } from '../../../src/metrics/recorder.ts';
import { Outbox } from '../../../src/publishing/outbox.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { TopicMarks } from '../../../src/subscribing/topic_marks.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);
const RULES: Rules = {
  sources: [{ topic: 'paid', count: 2 }],
  within: 100,
  on_expiry: { topic: 'stuck', type: 'noop' },
};
const settings = {
  ...{ maxJoins: 100, maxClientJoins: 100, maxTopics: 100, maxClientTopics: 100 },
  ...{ maxJoinKeys: 1000, maxJoinBytes: 1_000_000, maxOutboxBytes: 1000 },
};
const running = new AbortController().signal;
let counted: Record<string, number> = {};
let isShort = false;
let recorded = capturedLog();

function expiry(): () => Promise<void> {
  const { store } = redis;
  const recorder = new Recorder({
    increment: (name, _tags, by = 1) => {
      counted[name] = (counted[name] ?? 0) + by;
    },
  });
  const guard = {
    check: () => {
      if (isShort) throw new StorageFull();
      return undefined;
    },
  };
  const publicNames = new PublicNames(new Clients(store, []), new NameKey(store));
  const run = joinExpiry({
    partition: store,
    partitions: new Partitions(store),
    outbox: NO_OUTBOX,
    guard,
    recorder,
    publicNames,
    settings,
    log: recorded.log,
  });
  return () => run(running);
}

/** Opens this many keys of a join, and waits until they have expired. */
async function openKeys(name: string, rules: Rules, count: number): Promise<void> {
  await joins.put(name, rules);
  const events = Array.from({ length: count }, (_, n) => joinEvent('paid', n));
  await bus.publishAll('a', ['paid', 'pub', events]);
  while ((await bus.acquire([])).readyJobs > 0) await joins.work(name);
  const { redis: commands, keys } = redis.store;
  // Several calls may have opened the keys, so the last key expires after the first.
  const [, since] = await commands.zrange(
    keys.open_keys_since(joinToken(name, CLIENT)),
    '-1',
    '-1',
    'WITHSCORES',
  );
  const due = Number(since) + (rules.within ?? 0);
  await until(async () => (await bus.nowMs()) > due, { everyMs: 5 });
}

const isDue = () => redis.store.redis.exists(redis.store.keys.joins_expiring());
const stuck = async () => (await bus.state()).batches;

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('office', { topics: ['stuck'], timeout: 600_000, max: 10_000 });
  counted = {};
  isShort = false;
  recorded = capturedLog();
});

describe('what closes keys whose time is over', () => {
  test('closes a hundred of a join at a time, and counts and publishes them', async () => {
    await openKeys('order', RULES, 150);
    await expiry()();
    assert.deepEqual([counted['joins.expired'], counted['events.published'], await isDue()], [100, 100, 1]);
    await expiry()();
    assert.deepEqual([counted['joins.expired'], counted['events.added'], await isDue()], [150, 150, 0]);
    await assertConsistent(redis.store);
  });

  test('publishes nothing while memory is short, and keeps the keys; others without an event go', async () => {
    await openKeys('order', RULES, 1);
    isShort = true;
    await assert.rejects(expiry()(), StorageFull);
    assert.deepEqual([await isDue(), counted['joins.expired']], [1, undefined]);
    await redis.store.run('remove_subscriber', { token: joinToken('order', CLIENT), series: [] });
    await openKeys('silent', { ...RULES, on_expiry: null }, 1);
    await expiry()();
    assert.deepEqual([await isDue(), counted['joins.expired'], await stuck()], [0, 1, {}]);
  });

  test('says so if the join may not publish any more', async () => {
    await openKeys('order', RULES, 2);
    await redis.store.redis.hset(redis.store.keys.topic('stuck'), 'publisher', 'other');
    await expiry()();
    assert.deepEqual([await isDue(), await stuck()], [0, {}]);
    const [line] = recorded.lines;
    assert.deepEqual(
      [line?.msg, line?.keys, line?.reason],
      ['keys of a join expired, and it may not publish that', 2, 'another client publishes to stuck now'],
    );
  });

  test('says so in 20 lines at most in ten seconds', async () => {
    await openKeys('order', RULES, 2100);
    await redis.store.redis.hset(redis.store.keys.topic('stuck'), 'publisher', 'other');
    const run = expiry();
    for (let call = 0; call < 21; call++) await run();
    assert.deepEqual([counted['joins.expired'], await isDue()], [2100, 0]);
    assert.equal(recorded.lines.length, 20);
  });

  test('forgets a join that is gone', async () => {
    await redis.store.redis.zadd(redis.store.keys.joins_expiring(), 1, 'join:gone:shop');
    await expiry()();
    assert.equal(await isDue(), 0);
  });

  test('serves clients in turns, so that many joins of one do not keep that of another waiting', async () => {
    const { redis: commands, keys } = redis.store;
    for (let i = 0; i < 150; i++)
      await commands.zadd(keys.joins_expiring(), 1, joinToken(`j${i}`, 'mallory'));
    await openKeys('order', RULES, 1);
    await expiry()();
    assert.equal(counted['joins.expired'], 1);
    assert.equal(await commands.zcard(keys.joins_expiring()), 51);
    await expiry()();
    assert.equal(await isDue(), 0);
  });

  test('comes to each join, although another of its client and those of a hundred others fail', async () => {
    const { redis: commands, keys } = redis.store;
    const clients = Array.from({ length: 100 }, (_, i) => `client${i}`);
    for (const client of [...clients, CLIENT]) {
      await commands.zadd(keys.joins_expiring(), 1, joinToken('broken', client));
      await commands.set(keys.subscriber(joinToken('broken', client)), 'no hash');
    }
    await openKeys('order', RULES, 1);
    const run = expiry();
    for (let call = 0; call < 2; call++) await assert.rejects(run(), /WRONGTYPE/);
    assert.equal(counted['joins.expired'], 1);
    await redis.flush();
  });

  test('goes on with other joins if one fails, and reports the failure', async () => {
    await openKeys('order', RULES, 1);
    const { redis: commands, keys } = redis.store;
    await commands.zadd(keys.joins_expiring(), 1, 'join:broken:shop');
    await commands.set(keys.subscriber('join:broken:shop'), 'no hash');
    await assert.rejects(expiry()(), /WRONGTYPE/);
    assert.equal(counted['joins.expired'], 1);
    await redis.flush();
  });
});

/**
 * A join that waits for two events of a topic of another partition, and for `locals` of one of its own. It publishes
 * what expires to a topic of the other partition.
 */
async function joinBetweenPartitions(locals: number) {
  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  await beginBus(partitions);
  const [partition, home] = partitions.all as [Partition, Partition];
  const [here, there] = [new Bus(() => partition), new Bus(() => home)];
  const [client, source] = [nameIn(partitions, 0, 'client'), nameIn(partitions, 1, 'paid')];
  const recorder = { published: () => {}, added: () => {}, joined: () => {}, removed: () => {} };
  const marks = new TopicMarks(partitions);
  const outbox = new Outbox({
    confirmed: partitions,
    recorder,
    marks,
    limits: PUBLISH_LIMITS,
    log: recorded.log,
  });
  const guard = { check: () => undefined, maxBytes: 0 };
  const publicNames = new PublicNames(new Clients(partitions.control, []), new NameKey(partitions.control));
  const limits = { ...settings, leaseMs: 30_000, laneLimit: 16, laneLimitMax: 64, deliveryLog: 0 };
  const parts = { partitions, guard, recorder, publicNames, settings: limits, log: recorded.log };
  const batches = new JoinBatches(parts);
  const local = nameIn(partitions, 0, 'local');
  const sources = [
    { topic: source, count: 2 },
    { topic: local, count: locals },
  ].filter(({ count }) => count > 0);
  const stuck = nameIn(partitions, 1, 'stuck');
  const rules = { sources, by: 'data.key', within: 1000, on_expiry: { topic: stuck, type: 'noop' } as const };
  const put = async (name: string, on_expiry: typeof rules.on_expiry | null) => {
    const then = { topic: nameIn(partitions, 0, `ready_${name}`), type: 'noop' } as const;
    const { outcome } = await new Joins(partitions, settings).put(client, name, {
      ...rules,
      on_expiry,
      then,
    });
    assert.equal(outcome, 'created');
    return joinToken(name, client);
  };
  const token = await put('order', rules.on_expiry);
  await here.addIdleWorkers();
  return {
    ...{ put, token, partition, home, here, there, source, local, stuck, within: rules.within },
    publish: (key: string) => there.publish(key, source, [joinEvent(source, key)]),
    flush: () => outbox.flush(home, partition),
    flushBack: () => outbox.flush(partition, home),
    /** Counts the first batch of the queue. */
    async count() {
      await outbox.flush(home, partition);
      const [grant] = (await new Queue(partition, 'main', limits).acquire(['w1'])).grants;
      assert.ok(grant?.batch);
      assert.deepEqual(await batches.countBatch({ ...grant, batch: grant.batch }, running), {
        end: 'settled',
        held: true,
      });
    },
    expire: (flush: Outbox['flush'] = (...of) => outbox.flush(...of)) =>
      joinExpiry({ ...parts, partition, outbox: { flush } })(running),
    async counts() {
      const { expired, completed } = await partition.redis.hgetall(partition.keys.subscriber(token));
      return [expired, completed];
    },
  };
}

describe('a key does not expire while an event of it that came in time', () => {
  test('is under way from another partition', async () => {
    const join = await joinBetweenPartitions(0);
    const { partition, there, publish } = join;
    await publish('A');
    await join.count();
    const due = (await there.nowMs()) + join.within;
    // The join is looked at before the time of the key is over, as if another key had expired.
    await partition.redis.zadd(partition.keys.joins_expiring(), 1, join.token);
    await join.expire(async () => {
      await join.flush();
      await publish('A');
      assert.ok((await there.nowMs()) < due, 'it comes in time');
      await until(async () => (await there.nowMs()) > due);
    });
    await join.count();
    assert.deepEqual(await join.counts(), [undefined, '1']);
  });

  test('is behind hundreds of later ones in the queue', async () => {
    const join = await joinBetweenPartitions(1);
    const { partition, here, there, publish, local } = join;
    await partition.redis.hset(partition.keys.subscriber(join.token), 'max_events', 1);
    await here.publish('a', local, [joinEvent(local, 'A')]);
    await join.count();
    await publish('A');
    await publish('A');
    const due = (await there.nowMs()) + join.within;
    await until(async () => (await there.nowMs()) > due);
    for (let call = 0; call < 4; call++) {
      const events = Array.from({ length: 100 }, (_, i) => joinEvent(local, `${call} ${i}`));
      await here.publish(`b${call}`, local, events);
    }
    await join.expire();
    assert.deepEqual(await join.counts(), [undefined, undefined]);
    while ((await partition.redis.zcard(partition.keys.batches_queued(join.token))) > 0) await join.count();
    assert.deepEqual(await join.counts(), [undefined, '1']);
  });
});

test('joins wait only once in a call for a partition that is away, which may take seconds', async () => {
  const join = await joinBetweenPartitions(0);
  const { redis: commands, keys } = join.partition;
  for (const token of [join.token, await join.put('parcel', null)])
    await commands.zadd(keys.joins_expiring(), 1, token);
  let calls = 0;
  const away = async () => {
    calls++;
    throw new StorageUnavailable(undefined);
  };
  await assert.rejects(join.expire(away), StorageUnavailable);
  assert.equal(calls, 1);
  const due = (await commands.zrange(keys.joins_expiring(), '0', '-1', 'WITHSCORES')).map(Number);
  assert.ok(Number(due[1]) > 1 && Number(due[3]) > 1, 'both are tried again later');
});

test('of keys whose events another partition refuses, each process tells one a topic in ten seconds', async () => {
  const { home, there, stuck, within, ...join } = await joinBetweenPartitions(0);
  await home.redis.hset(home.keys.topic(stuck), 'publisher', 'other');
  for (const key of ['A', 'B']) {
    await join.publish(key);
    await join.count();
    const due = (await there.nowMs()) + within;
    await until(async () => (await there.nowMs()) > due);
    await join.expire();
    await join.flushBack();
  }
  assert.deepEqual(await join.counts(), ['2', undefined]);
  const told = recorded.lines.filter(({ topic }) => topic === stuck).map(({ msg, reason }) => [msg, reason]);
  assert.deepEqual(told, [
    ['a join may not publish to its topic any more; its events are dropped', 'claimed_by_other'],
  ]);
});
