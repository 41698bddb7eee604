import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../../harness/scripts/bus_inputs.ts';
import { beginBus, nameIn } from '../../../harness/scripts/crossing.ts';
import { JoinCalls, joinEvent } from '../../../harness/scripts/join_calls.ts';
import { DEFAULTS, subscribersIn } from '../../../harness/subscriptions.ts';
import { until } from '../../../harness/until.ts';
import { sleep } from '../../../src/clock.ts';
import { StorageUnavailable } from '../../../src/errors.ts';
import { joinArguments } from '../../../src/flow/joins/join_store.ts';
import { Joins } from '../../../src/flow/joins/joins.ts';
import { joinToken } from '../../../src/ids.ts';
import { Outbox } from '../../../src/publishing/outbox.ts';
import type { Reply } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { Subscriptions } from '../../../src/subscribing/subscription.ts';
import { TopicMarks } from '../../../src/subscribing/topic_marks.ts';

const ROOM = 1000;
const LIMITS = {
  ...{ maxJoins: ROOM, maxClientJoins: ROOM, maxTopics: ROOM, maxClientTopics: ROOM },
  ...{ maxJoinKeys: ROOM, maxJoinBytes: ROOM, maxOutboxBytes: ROOM },
};

const redis = new TestStore();
let partitions: Partitions;
/** A client, and a topic of its own, of the second and of the third partition, seen from the client. */
let client: string;
/** A client of another partition. */
let stranger: string;
let topics: string[];

beforeEach(async () => {
  await redis.flush();
  partitions = Partitions.on(redis.store.redis, { partitions: 3 });
  await beginBus(partitions);
  const names = Array.from({ length: 100 }, (_, i) => `name_${i}`);
  const [own, ...others] = partitions.all;
  client = names.find((name) => partitions.ofSubscriber(name) === own) ?? assert.fail();
  stranger = names.find((name) => partitions.ofSubscriber(name) !== own) ?? assert.fail();
  topics = [own, ...others].map(
    (each) => names.find((name) => partitions.ofTopic(name) === each) ?? assert.fail(),
  );
});

/** Puts a join that counts `topics[0]` and publishes to the other two. */
async function put(limits: Partial<typeof LIMITS> = {}): Promise<string> {
  const [source = '', complete = '', expired = ''] = topics;
  const { outcome } = await new Joins(partitions, { ...LIMITS, ...limits }).put(client, 'order', {
    sources: [{ topic: source, count: 1 }],
    ...{ by: 'data.key', within: 1000 },
    then: { topic: complete, type: 'noop' },
    on_expiry: { topic: expired, type: 'noop' },
  });
  return outcome;
}

/** Puts a join of a client in another partition that leads from `topics[1]` back to `topics[0]`. */
async function putBack(): Promise<string> {
  const [to = '', from = ''] = topics;
  const { outcome } = await new Joins(partitions, LIMITS).put(stranger, 'back', {
    sources: [{ topic: from, count: 1 }],
    ...{ by: 'data.key', within: 1000, on_expiry: null },
    then: { topic: to, type: 'noop' },
  });
  return outcome;
}

/** Has the join of `put` publish an event, which stays in the outbox of the join's partition. */
async function publishByJoin(): Promise<void> {
  const [own = assert.fail()] = partitions.all;
  const [source = ''] = topics;
  const bus = new Bus(() => own);
  await bus.publish('a', source, [joinEvent(source, 'k')]);
  await bus.addIdleWorkers();
  const { outcome, completed } = await countNext(bus);
  assert.deepEqual([outcome, completed], ['counted', 1]);
}

/** Counts the events of the next batch of the join `order`. */
async function countNext(bus: Bus): Promise<Reply<'join_events'>> {
  const calls = new JoinCalls(bus, client);
  const [grant = assert.fail()] = (await bus.acquire(['w1'])).grants;
  return bus.store.run('join_events', {
    ...(await calls.counting('order', 'w1', grant.job)),
    ...joinArguments(await calls.find('order'), LIMITS, partitions),
  });
}

function newOutbox(): Outbox {
  return new Outbox({
    confirmed: partitions,
    recorder: { published: () => {}, added: () => {} },
    marks: new TopicMarks(partitions),
    limits: PUBLISH_LIMITS,
    log: capturedLog().log,
  });
}

/** Resolves with the publishers of the three topics. */
function publishers(): Promise<(string | null)[]> {
  return Promise.all(
    topics.map((name) =>
      partitions.ofTopic(name).command((redis, keys) => redis.hget(keys.topic(name), 'publisher')),
    ),
  );
}

test('a join is shown with the memory that its queued batches and dead letters take', async () => {
  await put();
  const joins = new Joins(partitions, LIMITS);
  const token = joinToken('order', client);
  const bytes = async () => (await joins.find(token))?.bytes;
  assert.deepEqual(await bytes(), { queued: 0, dead_letters: 0 });
  const [own = assert.fail()] = partitions.all;
  const [source = ''] = topics;
  const bus = new Bus(() => own);
  const event = joinEvent(source, 'k'.repeat(1000));
  await bus.publish('a', source, Array(50).fill(event));
  const queued = (await bytes())?.queued ?? 0;
  assert.ok(queued > 50 * event.length && queued < 100 * event.length, `${queued}`);
  const [listed] = await joins.read([token]);
  assert.deepEqual(listed?.bytes, { queued, dead_letters: 0 });
});

test('a join that fails leaves no source behind if the partition of another source is away', async () => {
  const [own = assert.fail(), second = assert.fail(), third = assert.fail()] = partitions.all;
  const run: Partition['run'] = (script, args) =>
    script === 'mark_topics'
      ? Promise.reject(new StorageUnavailable(new Error('away')))
      : third.run(script, args);
  const failing = new Partitions(own, second, Object.create(third, { run: { value: run } }));
  const [outlet = '', ...sources] = topics;
  const put = new Joins(failing, LIMITS).put(client, 'order', {
    sources: sources.map((topic) => ({ topic, count: 1 })),
    ...{ by: 'data.key', within: 1000, on_expiry: null },
    then: { topic: outlet, type: 'noop' },
  });
  await assert.rejects(put, StorageUnavailable);
  assert.equal(await second.redis.exists(second.keys.topics()), 0);
});

describe('a join that publishes to topics of two other partitions', () => {
  test('makes them its client’s', async () => {
    assert.equal(await put(), 'created');
    assert.deepEqual(await publishers(), [null, client, client]);
    assert.equal(await put(), 'changed');
  });

  test('claims none of them if one is another client’s', async () => {
    const name = topics[2] ?? '';
    const home = partitions.ofTopic(name);
    await home.redis.hset(home.keys.topic(name), 'publisher', 'mill');
    assert.equal(await put(), 'claimed_by_other');
    assert.deepEqual(await publishers(), [null, null, 'mill']);
  });

  test('claims none of them if its client may have no more joins', async () => {
    assert.equal(await put({ maxClientJoins: 0 }), 'too_many_client_joins');
    assert.deepEqual(await publishers(), [null, null, null]);
  });

  test('is part of a circle also while nobody has its topic, or another client', async () => {
    await put();
    const [, name = ''] = topics;
    const home = partitions.ofTopic(name);
    await home.run('remove_topic', { topic: name, series: [] });
    assert.equal(await putBack(), 'loop');
    await home.run('claim_topics', { ...LIMITS, client: stranger, topics: [name], judgesOnly: false });
    assert.equal(await putBack(), 'loop');
  });

  test('leaves no event under way when it is removed, which would create a deleted topic again', async () => {
    await put();
    await publishByJoin();
    const [own = assert.fail(), home = assert.fail()] = partitions.all;
    const [, complete = ''] = topics;
    assert.equal(await own.redis.llen(own.keys.outbox()), 1);
    await subscribersIn(partitions, newOutbox()).remove(joinToken('order', client));
    await home.run('remove_topic', { topic: complete, series: [] });
    await newOutbox().flush(own, home);
    assert.deepEqual(await publishers(), ['shop', null, client]);
  });

  for (const [what, repeated] of [
    ['it is removed again', () => joinToken('order', client)],
    ['its client is removed again', () => client],
  ] as const)
    test(`leaves no event under way when its removal was cut off, and ${what}`, async () => {
      await put();
      await publishByJoin();
      const [own = assert.fail(), home = assert.fail()] = partitions.all;
      const outbox = newOutbox();
      const subscribers = subscribersIn(partitions, outbox);
      outbox.flush = async () => {
        if (!(await subscribers.has(joinToken('order', client)))) throw new Error('the process was killed');
      };
      await assert.rejects(subscribers.remove(joinToken('order', client)), /killed/);
      assert.equal(await own.redis.llen(own.keys.outbox()), 1);
      await subscribersIn(partitions, newOutbox()).remove(repeated());
      await home.run('remove_topic', { topic: topics[1] ?? '', series: [] });
      await newOutbox().flush(own, home);
      assert.deepEqual(await publishers(), ['shop', null, client]);
    });

  test('stays when it cannot be removed because the partition of such a topic is away', async () => {
    await put();
    await publishByJoin();
    const outbox = newOutbox();
    const subscribers = subscribersIn(partitions, outbox);
    const token = joinToken('order', client);
    outbox.flush = () => Promise.reject(new StorageUnavailable(new Error('away')));
    await assert.rejects(subscribers.remove(token), StorageUnavailable);
    assert.equal(await subscribers.has(token), true);
  });

  test('makes no outbox numbers run ahead of the clock when its events come late', async () => {
    await put();
    await publishByJoin();
    const [own = assert.fail(), home = assert.fail(), third = assert.fail()] = partitions.all;
    const [, complete = ''] = topics;
    const token = nameIn(partitions, 2, 'office');
    const wanted = { topics: [complete], callback: 'https://office.example/', uuid: 'u' };
    await new Subscriptions(partitions, DEFAULTS, newOutbox()).subscribe(token, wanted);
    await sleep(150);
    await new Bus(() => home).publishAll('b', [complete, client, ['e']]);
    await newOutbox().flush(own, home);
    await newOutbox().flush(home, third);
    assert.equal(await third.redis.zcard(third.keys.batches_queued(token)), 1);
    assert.equal(await home.redis.hget(home.keys.outboxes_sent(), 'ahead'), '0');
  });
});

test('a key has expired before it is complete again also for a subscriber in another partition', async () => {
  const [own = assert.fail(), home = assert.fail()] = partitions.all;
  const [source = '', ready = ''] = topics;
  const stuck = nameIn(partitions, 0, 'stuck');
  await new Joins(partitions, LIMITS).put(client, 'order', {
    sources: [{ topic: source, count: 2 }],
    ...{ by: 'data.key', within: 100 },
    then: { topic: ready, type: 'noop' },
    on_expiry: { topic: stuck, type: 'noop' },
  });
  const office = nameIn(partitions, 1, 'office');
  const wanted = { topics: [ready, stuck], callback: 'https://office.example/', uuid: 'u' };
  await new Subscriptions(partitions, DEFAULTS, newOutbox()).subscribe(office, wanted);
  const bus = new Bus(() => own);
  await bus.addIdleWorkers();
  await bus.publish('a', source, [joinEvent(source, 'k')]);
  await countNext(bus);
  const due = Number(await own.redis.zscore(own.keys.joins_expiring(), joinToken('order', client)));
  await until(async () => (await bus.nowMs()) > due, { everyMs: 1 });
  await bus.publish('b', source, [joinEvent(source, 'k'), joinEvent(source, 'k')]);
  const { expired, completed } = await countNext(bus);
  assert.deepEqual([expired, completed], [1, 1]);
  await newOutbox().flush(own, home);
  const [bid = ''] = await home.redis.zrange(home.keys.batches_queued(office), '0', '-1');
  const events = (await home.redis.lrange(home.keys.batch(bid), 3, -1)).map((text) => JSON.parse(text).topic);
  assert.deepEqual(events, [stuck, ready]);
});
