import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertPartitionsConsistent, nameIn } from '../../../harness/scripts/crossing.ts';
import { buryAll, readDeadLetters } from '../../../harness/scripts/dead_letters.ts';
import { DEFAULTS, subscribersIn } from '../../../harness/subscriptions.ts';
import { StorageFull, StorageUnavailable } from '../../../src/errors.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { Subscriptions } from '../../../src/subscribing/subscription.ts';
import { Topics } from '../../../src/subscribing/topic.ts';
import { marksIn, TopicMarks } from '../../../src/subscribing/topic_marks.ts';
import { beforeScript, bus, outboxWith, redis } from './scene.ts';

describe('a subscription to a topic that lives elsewhere', () => {
  test('counts for the next event, and no longer when it has ended', async () => {
    const [token, other] = [bus.token(1), bus.token(1, 'bob')];
    await bus.subscribe(token, bus.topic);
    await bus.subscribe(other, bus.topic);
    await bus.publish('e1');
    assert.equal(await bus.subscriptions.unsubscribe(token, bus.topic), 'ok');
    assert.equal(await bus.subscriptions.unsubscribe(token, bus.topic), 'not_subscribed');
    assert.equal(
      await bus.subscriptions.unsubscribe(token, nameIn(bus.partitions, 2, 'none')),
      'topic_not_found',
    );
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1'], 'what was accepted before is delivered');
    assert.deepEqual(await bus.queued(other), ['e1', 'e2']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('ends with the subscriber, and a topic without publisher with its last subscription', async () => {
    await bus.subscribe(bus.token(1), bus.topic);
    await bus.subscribe(bus.token(2), bus.topic, nameIn(bus.partitions, 3, 'gadgets'));
    await bus.subscribe(bus.token(2), bus.topic);
    assert.deepEqual(await bus.topics.names(), [bus.topic]);
    await bus.subscribers.remove(bus.token(1));
    assert.deepEqual(await bus.topics.names(), [bus.topic]);
    await bus.subscribers.remove(bus.token(2));
    assert.deepEqual(await bus.topics.names(), []);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('ends with the topic, which is then gone', async () => {
    await bus.subscribe(bus.token(0), bus.topic);
    await bus.subscribe(bus.token(1), bus.topic);
    await bus.publish('e1');
    assert.deepEqual(await bus.topics.remove(bus.topic), { outcome: 'ok', delayed: 0, subscriptions: 2 });
    assert.deepEqual(await bus.topics.names(), []);
    assert.deepEqual(await bus.queued(bus.token(1)), ['e1'], 'what was accepted before is delivered');
    assert.deepEqual(
      (await bus.subscribers.list()).map(({ topics }) => topics),
      [[], []],
    );
    await bus.runJobs();
    await assertPartitionsConsistent(bus.partitions);
  });

  test('ends with its topic later, if its partition has no memory when the topic is deleted', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const full = outboxWith(() => Promise.reject(new StorageFull()));
    assert.equal((await new Topics(bus.partitions, full).remove(bus.topic, 'shop')).outcome, 'ok');
    const topics = async () => (await bus.subscribers.list()).map(({ topics }) => topics);
    assert.deepEqual(await topics(), [[bus.topic]]);
    await bus.runJobs();
    assert.deepEqual(await topics(), [[]]);
    assert.deepEqual(await bus.queued(token), ['e1'], 'what was accepted before is delivered');
    await assertPartitionsConsistent(bus.partitions);
  });

  test('stays when it comes after its topic was deleted, although its partition learns of that later', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const away = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    const removing = new Topics(bus.partitions, away).remove(bus.topic, 'shop');
    await assert.rejects(removing, StorageUnavailable);
    assert.equal((await bus.topics.remove(bus.topic, 'shop')).outcome, 'topic_not_found');
    await bus.subscribe(token, bus.topic);
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1', 'e2']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('stays also if the last earlier one ends before its partition learns of the deletion', async () => {
    const [token, other] = [bus.token(1), bus.token(1, 'bob')];
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const away = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    const [home, ...others] = bus.partitions.all as [Partition, ...Partition[]];
    const [first, ...rest] = others as [Partition, ...Partition[]];
    const deleting = beforeScript(first, 'unsubscribe', () =>
      assert.rejects(new Topics(bus.partitions, away).remove(bus.topic, 'shop'), StorageUnavailable),
    );
    const leaving = new Subscriptions(new Partitions(home, deleting, ...rest), DEFAULTS, bus.outbox);
    assert.equal(await leaving.unsubscribe(token, bus.topic), 'ok');
    await bus.subscribe(other, bus.topic);
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(other), ['e2']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('stays although the last one before it left while its topic was deleted', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    const away = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    // Whoever leaves has the outbox moved first. The deletion comes after that.
    await assert.rejects(new Topics(bus.partitions, away).remove(bus.topic), StorageUnavailable);
    const to = bus.partitions.ofSubscriber(token);
    assert.equal(await to.run('unsubscribe', { token, topic: bus.topic, isForeign: true }), 'ok');
    await new TopicMarks(bus.partitions).refresh(to, [bus.topic]);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('stays when it comes while the last one ends', async () => {
    const [token, other] = [bus.token(1), bus.token(1, 'bob')];
    for (let n = 0; n < 20; n++) {
      await bus.subscribe(token, bus.topic);
      await Promise.all([bus.subscribers.remove(token), bus.subscribe(other, bus.topic)]);
      await bus.publish(`e${n}`);
      await bus.runJobs();
      assert.deepEqual(await bus.queued(other), [`e${n}`]);
      await bus.subscribers.remove(other);
    }
    await assertPartitionsConsistent(bus.partitions);
  });

  for (const max_events of [1, 2, 3])
    test(`keeps its events if the queue before it is still dropped, with ${max_events} in a batch`, async () => {
      const token = bus.token(1);
      const wanted = { topics: [bus.topic], callback: 'https://a.example/', uuid: 'u', max_events };
      await bus.subscriptions.subscribe(token, wanted);
      const [home, first, ...rest] = bus.partitions.all as [Partition, Partition, ...Partition[]];
      // The new queue begins with an event that was accepted before the subscriber had left.
      const leaving = beforeScript(first, 'remove_subscriber', async () => {
        await bus.publish('old');
      });
      const dropping = beforeScript(leaving, 'drop_queue', async () => {
        await bus.subscriptions.subscribe(token, wanted);
        await bus.publish('e1');
        await bus.runJobs();
      });
      await subscribersIn(new Partitions(home, dropping, ...rest), bus.outbox).remove(token);
      await bus.publish('e2');
      await bus.runJobs();
      assert.deepEqual(await bus.queued(token), ['old', 'e1', 'e2']);
      await assertPartitionsConsistent(bus.partitions);
    });

  test('sets its mark anew, so that whoever found nobody before it cannot remove the mark', async () => {
    const { redis: commands, keys } = bus.homeOfTopic();
    const marks = new TopicMarks(bus.partitions);
    const to = bus.partitions.all[1] as Partition;
    const markOf = async () => marksIn(await commands.hget(keys.topic(bus.topic), 'elsewhere')).get(1);
    await marks.reserve(to, [bus.topic], 100);
    const before = await markOf();
    assert.ok(before);
    await bus.subscribe(bus.token(1), bus.topic);
    const topics = [{ topic: bus.topic, markedUs: before.markedUs }];
    assert.equal(await bus.homeOfTopic().run('unmark_topics', { partition: '1', topics }), 0);
    const reserved = await markOf();
    await marks.refresh(to, [bus.topic]);
    assert.notEqual((await markOf())?.markedUs, reserved?.markedUs);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('to many topics marks them in several calls, so that none blocks Redis for long', async () => {
    const [home, first, ...rest] = bus.partitions.all as [Partition, Partition, ...Partition[]];
    const calls: number[] = [];
    const run: Partition['run'] = (script, args) => {
      const { topics } = args as { topics?: unknown[] };
      if (topics) calls.push(topics.length);
      return home.run(script, args);
    };
    const marks = new TopicMarks(
      new Partitions(Object.create(home, { run: { value: run } }), first, ...rest),
    );
    const names = Array.from({ length: 5000 }, (_, n) => `t${n}`);
    const topics = names.filter((name) => bus.partitions.ofTopic(name) === home);
    const keysBefore = await home.redis.dbsize();
    const refused = () => marks.reserve(first, topics, topics.length - 1);
    assert.equal(await marks.correctAfter(first, topics, refused), false);
    assert.deepEqual(await bus.topics.names(), []);
    assert.equal(await marks.reserve(first, topics, topics.length), true);
    assert.deepEqual((await home.redis.smembers(home.keys.topics())).sort(), topics.sort());
    await marks.refresh(first, topics);
    assert.ok(Math.max(...calls) <= 500, `a call has ${Math.max(...calls)} topics`);
    assert.equal(await home.redis.dbsize(), keysBefore);
  });

  test('ends also while Redis has no memory, with the queue of a subscriber that leaves', async () => {
    const [token, other, third] = [bus.token(1), bus.token(1, 'bob'), bus.token(1, 'carol')];
    const [own, shared] = ['own', 'shared'].map((stem) =>
      [2, 3].map((index) => nameIn(bus.partitions, index, stem)),
    ) as [string[], string[]];
    await bus.subscribe(token, bus.topic, ...own, ...shared);
    for (const each of [other, third]) await bus.subscribe(each, bus.topic, ...shared);
    await bus.publish('e1');
    await bus.runJobs();
    await redis.store.redis.config('SET', 'maxmemory', 1);
    try {
      assert.equal(await bus.subscriptions.unsubscribe(other, bus.topic), 'ok');
      assert.equal(await bus.subscribers.remove(token), true);
      assert.deepEqual(await bus.queued(token), []);
      assert.deepEqual(await bus.topics.names(), [bus.topic, ...shared].sort());
    } finally {
      await redis.store.redis.config('SET', 'maxmemory', 0);
    }
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(third), ['e1', 'e2']);
  });

  test('ends with a subscriber that leaves, also if Redis has no memory for what waits for it', async () => {
    const [token, other] = [bus.token(1), bus.token(1, 'bob')];
    for (const each of [token, other]) await bus.subscribe(each, bus.topic);
    await bus.publish('e1');
    await bus.runJobs();
    await bus.publish('e2');
    await redis.store.redis.config('SET', 'maxmemory', 1);
    try {
      await assert.rejects(bus.subscriptions.unsubscribe(token, bus.topic), StorageFull);
      assert.equal(await bus.subscribers.remove(token), true);
    } finally {
      await redis.store.redis.config('SET', 'maxmemory', 0);
    }
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), []);
    assert.deepEqual(await bus.queued(other), ['e1', 'e2']);
    for (const partition of bus.partitions.all)
      await new TopicMarks(bus.partitions).refresh(partition, [bus.topic]);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('leaves no dead letters of a subscriber that left, though a partition is away to which it has events', async () => {
    const token = bus.token(0);
    const wanted = { topics: [bus.topic], callback: 'https://a.example/', uuid: 'u', max_events: 1 };
    for (const each of [token, bus.token(1)]) await bus.subscriptions.subscribe(each, wanted);
    await bus.publish('e1');
    await buryAll(bus.homeOfTopic());
    // As after a client was limited: its join is gone, and what the join has left is removed next.
    await bus.homeOfTopic().run('remove_subscriber', { token, series: [] });
    const away = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    await assert.rejects(subscribersIn(bus.partitions, away).remove(token), StorageUnavailable);
    assert.deepEqual(await readDeadLetters(bus.homeOfTopic()), {});
  });

  for (const [failed, index] of [
    ['mark_topics', 2],
    ['subscribe', 1],
  ] as const)
    test(`leaves no topic behind if ${failed} fails`, async () => {
      const subscriptions = failingAt(index, failed, new StorageUnavailable(new Error('away')));
      const topics = [bus.topic, nameIn(bus.partitions, 1, 'own'), nameIn(bus.partitions, 2, 'other')];
      const wanted = { callback: 'https://a.example/', uuid: 'u', topics };
      await assert.rejects(subscriptions.subscribe(bus.token(1), wanted), StorageUnavailable);
      assert.deepEqual(await bus.topics.names(), []);
      await assertPartitionsConsistent(bus.partitions);
    });

  test('ends by a call that names the other topics, though its Redis has no memory to note that', async () => {
    const [token, other] = [bus.token(1), bus.token(1, 'bob')];
    const own = nameIn(bus.partitions, 1, 'own');
    for (const each of [token, other]) await bus.subscribe(each, bus.topic, own);
    const home = bus.homeOfTopic().index;
    const wanted = { callback: 'https://a.example/', uuid: 'u', topics: [own] };
    const subscriptions = failingAt(home, 'mark_topics', new StorageFull());
    assert.equal(await subscriptions.subscribe(token, wanted), 'ok');
    await bus.publish('e1');
    await bus.runJobs();
    assert.deepEqual([await bus.queued(token), await bus.queued(other)], [[], ['e1']]);
  });

  test('is refused if there would be too many topics', async () => {
    const subscriptions = new Subscriptions(bus.partitions, { ...DEFAULTS, maxTopics: 1 }, bus.outbox);
    const wanted = { callback: 'https://a.example/', uuid: 'u' };
    const [one, two] = [nameIn(bus.partitions, 0, 'one'), nameIn(bus.partitions, 0, 'two')];
    const other = nameIn(bus.partitions, 2, 'other');
    assert.equal(await subscriptions.subscribe(bus.token(1), { ...wanted, topics: [one] }), 'ok');
    assert.equal(
      await subscriptions.subscribe(bus.token(1), { ...wanted, topics: [other, two] }),
      'too_many_topics',
    );
    assert.deepEqual(await bus.topics.names(), [one]);
    await assertPartitionsConsistent(bus.partitions);
  });
});

/** Returns subscriptions for which the script `failed` throws `error` in one partition. */
function failingAt(index: number, failed: string, error: Error): Subscriptions {
  const run: Partition['run'] = (script, args) =>
    script === failed ? Promise.reject(error) : (bus.partitions.all[index] as Partition).run(script, args);
  const all = bus.partitions.all.map((each) =>
    each.index === index ? Object.create(each, { run: { value: run } }) : each,
  );
  const partitions = new Partitions(...(all as [Partition, ...Partition[]]));
  return new Subscriptions(partitions, DEFAULTS, bus.outbox);
}
