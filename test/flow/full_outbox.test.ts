import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertPartitionsConsistent, beginBus, nameIn } from '../../harness/scripts/crossing.ts';
import { joinEvent } from '../../harness/scripts/join_calls.ts';
import { type Firing, fireTriggers, putTrigger } from '../../harness/scripts/triggers.ts';
import { DEFAULTS } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { triedAgainIn } from '../../src/delivering/settlement.ts';
import { JoinBatches } from '../../src/flow/joins/join_batches.ts';
import { joinExpiry } from '../../src/flow/joins/join_expiry.ts';
import type { JoinRules } from '../../src/flow/joins/join_rules.ts';
import { Joins } from '../../src/flow/joins/joins.ts';
import { joinToken } from '../../src/ids.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Subscriptions } from '../../src/subscribing/subscription.ts';
import { TopicMarks } from '../../src/subscribing/topic_marks.ts';

const redis = new TestStore();
const { maxOutboxBytes } = PUBLISH_LIMITS;
const LEASE_MS = 30_000;
const ALICE = 'alice';
const settings = {
  ...{ leaseMs: LEASE_MS, laneLimit: 16, laneLimitMax: 64, deliveryLog: 0, maxOutboxBytes },
  ...{ maxJoins: 100, maxClientJoins: 100, maxTopics: 100, maxClientTopics: 100 },
  ...{ maxJoinKeys: 1000, maxJoinBytes: 1_000_000 },
};
const recorder = { published: () => {}, added: () => {}, joined: () => {}, removed: () => {} };
const running = new AbortController().signal;
const { log } = capturedLog();

let partitions: Partitions;
let outbox: Outbox;
let home: Partition;
/** Calls the scripts in `home`, the partition whose outbox is filled. */
const bus = new Bus(() => home);

/**
 * Returns the partition that comes `places` places after the partition of Alice. Alice is subscribed to the topics
 * whose events wait.
 */
const after = (places: number) =>
  partitions.all[(partitions.ofSubscriber(ALICE).index + places) % 4] as Partition;
const topicIn = ({ index }: Partition, stem: string) => nameIn(partitions, index, stem);

async function subscribe(...topics: string[]): Promise<void> {
  const subscriptions = new Subscriptions(partitions, DEFAULTS, outbox);
  await subscriptions.subscribe(ALICE, { topics, callback: 'https://alice.example/', uuid: 'u' });
}

const fill = () => bus.publish('f', topicIn(home, 'filler'), ['x'.repeat(maxOutboxBytes)]);

/** Moves what all outboxes have, as their jobs do. */
async function drain(): Promise<void> {
  for (const each of partitions.all)
    for (const { lease } of (await new Queue(each, 'aux', settings).acquire(['w'])).grants)
      assert.equal(await outbox.empty(each, { worker: 'w', lease, leaseMs: LEASE_MS }, running), 'ended');
}

/** Returns how many events of a topic Alice has got. */
async function got(topic: string): Promise<number> {
  const { batches } = await new Bus(() => partitions.ofSubscriber(ALICE)).state();
  const events = Object.values(batches).flatMap((batch) => batch.events);
  return events.filter((event) => event === topic || event.includes(`"topic":"${topic}"`)).length;
}

beforeEach(async () => {
  await redis.flush();
  partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  await beginBus(partitions);
  const marks = new TopicMarks(partitions);
  outbox = new Outbox({ confirmed: partitions, recorder, marks, limits: PUBLISH_LIMITS, log });
  home = after(1);
});
afterEach(async () => {
  await drain();
  await assertPartitionsConsistent(partitions);
});

describe('while an outbox is full', () => {
  const due = async () =>
    (await home.run('due_triggers', { limit: 100, firstClient: 0, maxOutboxBytes })).due.map(
      ({ timing: _, catchUp: __, ...each }): Firing => ({ ...each, times: [each.dueAt], missed: 0 }),
    );

  test('triggers of its topics stay due and come again after a second, and others fire', async () => {
    const [topic, free] = [topicIn(home, 'widgets'), topicIn(home, 'gadgets')];
    await subscribe(topic, topicIn(home, 'filler'));
    const nextAt = await bus.nowMs();
    await putTrigger(home, 'waits', { topic, nextAt: nextAt - 1 });
    await putTrigger(home, 'fires', { topic: free, nextAt });
    await fill();
    const listed = await due();
    assert.deepEqual(
      listed.map(({ name }) => name),
      ['fires'],
    );
    await fireTriggers(home, 'a', listed);
    const { redis: commands, keys } = home;
    const [member, score] = await commands.zrange(keys.triggers_due(), '0', '0', 'WITHSCORES');
    assert.deepEqual(
      [member, await commands.hget(keys.trigger('shop', 'waits'), 'next_at')],
      ['waits shop', String(nextAt - 1)],
    );
    assert.ok(Number(score) >= nextAt + 1000 && Number(score) <= (await bus.nowMs()) + 1000);
    assert.deepEqual(await home.run('sweep_triggers', { names: ['waits shop'] }), []);
    await drain();
    await until(async () => (await fireTriggers(home, 'b', await due())).published.length > 0);
    await drain();
    assert.equal(await got(topic), 1);
  });

  test('delayed events of its topics wait, however many, and others are published', async () => {
    const [topic, free] = [topicIn(home, 'widgets'), topicIn(home, 'gadgets')];
    await subscribe(topic, topicIn(home, 'filler'));
    const events = Array.from({ length: 200 }, (_, n) => ({ id: `e${n}`, delay: 10_000, text: topic }));
    await bus.delay('a', topic, events);
    await bus.delay('b', free, [{ id: 'e', delay: 10_000 }]);
    for (const each of [topic, free]) await bus.hasten(each, 20_000);
    await fill();
    const { published, isLeft } = await bus.publishDelayed('c');
    assert.deepEqual([published, isLeft], [{ [free]: 1 }, false]);
    const sweep = { topic, from: 0, added: 0, members: 0, bytes: 0 };
    assert.deepEqual((await home.run('sweep_delayed', sweep)).findings, []);
    await drain();
    let count = 0;
    await until(async () => {
      count += (await bus.publishDelayed('d')).published[topic] ?? 0;
      return count === 200;
    });
    await drain();
    assert.equal(await got(topic), 200);
  });

  /** Partitions of a join, of the topic that it publishes to, and of the full outbox, counted from Alice's. */
  for (const [what, ofJoin, ofOutlet, ofFull] of [
    ['from its topic to a subscriber elsewhere', 1, 1, 1],
    ['from the join to its topic elsewhere', 1, 0, 1],
    ['from its topic elsewhere to a subscriber in a third partition', 2, 1, 1],
  ] as const) {
    /** Puts a join, and resolves with a function that counts its next batch. */
    const scene = async (rules: (outlet: string) => Pick<JoinRules, 'then' | 'on_expiry'>, count: number) => {
      const client = nameIn(partitions, after(ofJoin).index, 'client');
      const token = joinToken('order', client);
      const partition = partitions.ofSubscriber(token);
      home = after(ofFull);
      const outlet = topicIn(after(ofOutlet), 'outlet');
      const source = topicIn(partition, 'source');
      const sources = [{ topic: source, count }];
      await subscribe(outlet, topicIn(home, 'filler'));
      const joins = new Joins(partitions, settings);
      await joins.put(client, 'order', { sources, by: 'data.key', within: 100, ...rules(outlet) });
      const publicNames = new PublicNames(
        new Clients(partitions.control, []),
        new NameKey(partitions.control),
      );
      const guard = { check: () => undefined, maxBytes: 0 };
      const parts = { partitions, guard, recorder, publicNames, settings, log };
      const batches = new JoinBatches(parts);
      const expire = joinExpiry({ ...parts, partition, outbox });
      const here = new Bus(() => partition);
      await here.publish('s', source, [joinEvent(source, 1)]);
      await here.addIdleWorkers();
      const [grant] = (await new Queue(partition, 'main', settings).acquire(['w1'])).grants;
      const { batch } = grant ?? {};
      assert.ok(grant && batch);
      const work = () => batches.countBatch({ ...grant, batch }, running);
      return { partition, token, outlet, work, expire: () => expire(running) };
    };

    test(`a join waits: ${what}`, async () => {
      const { outlet, work } = await scene(
        (topic) => ({ then: { topic, type: 'noop' }, on_expiry: null }),
        1,
      );
      await fill();
      assert.deepEqual(await work(), triedAgainIn(1000));
      await drain();
      assert.deepEqual(await work(), { end: 'settled', held: true });
      await drain();
      await drain();
      assert.equal(await got(outlet), 1);
    });

    test(`the keys of a join stay, and its batches wait: ${what}`, async () => {
      const { partition, token, outlet, work, expire } = await scene(
        (topic) => ({ then: { topic: 'quiet', type: 'noop' }, on_expiry: { topic, type: 'noop' } }),
        2,
      );
      const { redis: commands, keys } = partition;
      const open = () => commands.zcard(keys.open_keys_since(token));
      const isDue = async () =>
        Number(await commands.zscore(keys.joins_expiring(), token)) <= (await bus.nowMs());
      await fill();
      assert.deepEqual(await work(), triedAgainIn(1000));
      await drain();
      await work();
      await until(isDue);
      await fill();
      await expire();
      assert.deepEqual([await open(), await isDue()], [1, false]);
      await drain();
      await until(isDue);
      await expire();
      assert.equal(await open(), 0);
      await drain();
      await drain();
      assert.equal(await got(outlet), 1);
    });
  }
});
