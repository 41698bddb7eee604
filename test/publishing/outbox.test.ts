import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { publishingParts } from '../../harness/publishing.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { DELAY_LIMITS, PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertPartitionsConsistent, nameIn } from '../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { DEFAULTS } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { slicesOf } from '../../src/chunks.ts';
import { DeadLetters } from '../../src/delivering/dead_letters/dead_letters.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { promoteDue, Queue } from '../../src/delivering/queue.ts';
import { StorageForbidden, StorageUnavailable } from '../../src/errors.ts';
import { uidSeed } from '../../src/ids.ts';
import { reasonOf } from '../../src/log.ts';
import { outboxJob } from '../../src/maintenance/outbox_job.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { sweepCrossing } from '../../src/maintenance/sweep_crossing.ts';
import { readGauges } from '../../src/metrics/gauges.ts';
import type { ApplyingParts } from '../../src/publishing/applying.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import type { Reply, ScriptName } from '../../src/store/contracts.ts';
import { packJob } from '../../src/store/job.ts';
import type { Keyspace } from '../../src/store/keys.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { msOf } from '../../src/store/replies.ts';
import { isWrongType } from '../../src/store/wrong_type.ts';
import { Subscriptions } from '../../src/subscribing/subscription.ts';
import { Topics } from '../../src/subscribing/topic.ts';
import { marksIn, TopicMarks } from '../../src/subscribing/topic_marks.ts';
import { sumOf } from '../../src/sum.ts';

const redis = new TestStore();
const LEASE_MS = 30_000;
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: LEASE_MS, deliveryLog: 0 };

class Bus {
  readonly partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  readonly added: Record<string, number> = {};
  readonly #figures = {
    published: () => {},
    added: (token: string, events: number) => {
      this.added[token] = (this.added[token] ?? 0) + events;
    },
  };
  readonly outbox = new Outbox({
    confirmed: this.partitions,
    figures: this.#figures,
    marks: new TopicMarks(this.partitions),
    limits: PUBLISH_LIMITS,
    log: capturedLog().log,
  });
  readonly publisher = new Publisher(
    publishingParts(this.partitions, {
      figures: this.#figures,
      limits: { ...PUBLISH_LIMITS, maxOutboxBytes: 20_000 },
    }),
  );
  readonly topics = new Topics(this.partitions, this.outbox);
  readonly subscriptions = new Subscriptions(
    this.partitions,
    DEFAULTS,
    new DeadLetters(this.partitions, DEFAULTS, () => {}),
    this.outbox,
  );
  /** A topic that lives in the first partition. */
  readonly topic = nameIn(this.partitions, 0, 'widgets');

  subscribe(token: string, ...topics: string[]) {
    return this.subscriptions.subscribe(token, { topics, callback: `https://${token}.example/`, uuid: 'u' });
  }

  publish(...events: string[]) {
    return this.publisher.publish({ topic: this.topic, client: 'shop', events });
  }

  token(index: number, stem = 'alice'): string {
    return nameIn(this.partitions, index, stem);
  }

  /** Runs the jobs of all outboxes until none is left; also those that are not due yet. */
  async runJobs(outbox = this.outbox): Promise<void> {
    for (const partition of this.partitions.all) {
      const { redis, keys } = partition;
      for (const job of await redis.zrangeBuffer(keys.jobs_scheduled('aux'), '0', '-1'))
        await redis.zadd(keys.jobs_scheduled('aux'), 0, job);
      await promoteDue(partition);
      const queue = new Queue(partition, 'aux', SETTINGS);
      const run = outboxJob({
        partition,
        partitions: this.partitions,
        outbox,
        leaseMs: LEASE_MS,
        log: capturedLog().log,
        onFull: () => {},
      });
      for (;;) {
        const [grant] = (await queue.acquire(['w'])).grants;
        if (!grant) break;
        assert.deepEqual(await run(grant, new AbortController().signal), { end: 'settled', held: true });
      }
    }
  }

  /** Returns the events that wait for a subscriber, in order. */
  async queued(token: string): Promise<string[]> {
    const { redis, keys } = this.partitions.ofSubscriber(token);
    const bids = await redis.zrange(keys.batches_queued(token), '0', '-1');
    const batches = await Promise.all(bids.map((bid) => redis.lrange(keys.batch(bid), 3, -1)));
    return batches.flat();
  }

  homeOfTopic(): Partition {
    return this.partitions.ofTopic(this.topic);
  }

  /** Returns the entries of the topic's home: all of its outbox, or those set aside for a partition. */
  entries(aside?: number): Promise<string[]> {
    const { redis, keys } = this.homeOfTopic();
    return redis.lrange(aside === undefined ? keys.outbox() : keys.outbox_aside(String(aside)), 0, -1);
  }
}

/** Returns an outbox for which the second partition answers as `run` does. */
function outboxWith(run: () => Promise<never>): Outbox {
  const [home, second, ...others] = bus.partitions.all as [Partition, Partition, Partition, Partition];
  const confirmed = new Partitions(home, Object.create(second, { run: { value: run } }), ...others);
  return outboxOf({ confirmed, marks: { refresh: async () => {} } });
}

function outboxOf(parts: Pick<ApplyingParts, 'confirmed' | 'marks'>): Outbox {
  const figures = { published: () => {}, added: () => {} };
  return new Outbox({ ...parts, figures, limits: PUBLISH_LIMITS, log: capturedLog().log });
}

/**
 * Returns the partition, which calls `first` before it runs the script `name` for the first time. A `read_outbox` of
 * entries that are set aside (with `partition`) does not count.
 */
function beforeScript(partition: Partition, name: ScriptName, first: () => Promise<void>): Partition {
  let isFirst = true;
  const run: Partition['run'] = async (script, args) => {
    if (script === name && isFirst && !Object.hasOwn(Object(args), 'partition')) {
      isFirst = false;
      await first();
    }
    return partition.run(script, args);
  };
  return Object.create(partition, { run: { value: run } });
}

let bus: Bus;
beforeEach(async () => {
  await redis.flush();
  bus = new Bus();
});

describe('with several partitions, a publish', () => {
  test('reaches the subscribers of all of them, each event once and in order', async () => {
    const tokens = [0, 1, 2, 3].map((index) => bus.token(index));
    for (const token of tokens) assert.equal(await bus.subscribe(token, bus.topic), 'ok');
    for (let n = 0; n < 50; n++) assert.equal(await bus.publish(`e${n}`, `f${n}`), 'accepted');
    const events = Array.from({ length: 50 }, (_, n) => [`e${n}`, `f${n}`]).flat();
    assert.deepEqual(await bus.queued(tokens[0] as string), events, 'at once where the topic lives');
    assert.deepEqual(await bus.queued(tokens[1] as string), []);
    const { outboxes } = await readGauges(bus.partitions, { redisMaxBytes: 0, redisMinFreeBytes: 0 });
    assert.deepEqual(
      outboxes.map(([partition, bytes]) => [partition, bytes > 0]),
      [['any', true], ...['0', '1', '2', '3'].map((partition) => [partition, false])],
    );
    await bus.runJobs();
    for (const token of tokens) assert.deepEqual(await bus.queued(token), events);
    assert.deepEqual(bus.added, Object.fromEntries(tokens.map((token) => [token, 100])));
    await assertPartitionsConsistent(bus.partitions);
  });

  test('that fills a batch elsewhere, and was accepted before the batch was opened, does not close it before', async () => {
    const token = bus.token(1);
    const near = nameIn(bus.partitions, 1, 'gadgets');
    const wanted = { topics: [bus.topic, near], callback: 'https://alice.example/', uuid: 'u', maxEvents: 2 };
    await bus.subscriptions.subscribe(token, wanted);
    const { redis: commands, keys } = bus.partitions.ofSubscriber(token);
    const nowMs = async () => msOf(await commands.time());
    await bus.publish('e1');
    const acceptedMs = await nowMs();
    await until(async () => (await nowMs()) > acceptedMs);
    await bus.publisher.publish({ topic: near, client: 'shop', events: ['e2'] });
    await bus.runJobs();
    const [bid = '', ...others] = await commands.zrange(keys.batches_queued(token), '0', '-1');
    assert.deepEqual(others, []);
    const [, created] = await commands.lrange(keys.batch(bid), 0, 1);
    const closed = await commands.hget(keys.batches_closed(), bid);
    assert.ok(Number(closed) >= Number(created), `closed at ${closed}, opened at ${created}`);
  });

  test('leaves nothing behind where a partition has no subscriber', async () => {
    await bus.subscribe(bus.token(0), bus.topic);
    await bus.publish('e');
    assert.deepEqual(await bus.entries(), []);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('is refused once too much waits for another partition, and accepted again afterwards', async () => {
    await bus.subscribe(bus.token(1), bus.topic);
    assert.equal(await bus.publish('x'.repeat(30_000)), 'accepted');
    assert.equal(await bus.publish('e'), 'outbox_full');
    await bus.runJobs();
    assert.equal(await bus.publish('f'), 'accepted');
    await bus.runJobs();
    assert.deepEqual(
      (await bus.queued(bus.token(1))).map((event) => event.slice(0, 1)),
      ['x', 'f'],
    );
    await assertPartitionsConsistent(bus.partitions);
  });
});

describe('an outbox', () => {
  test('is applied once, whoever applies it how often, and whatever was not removed', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const [before = ''] = await bus.entries();
    const home = bus.homeOfTopic();
    const to = bus.partitions.all[1] as Partition;
    await Promise.all([1, 2, 3].map(() => bus.outbox.flush(home, to)));
    await bus.runJobs();
    await home.redis.lpush(home.keys.outbox(), before);
    await home.redis.hincrby(home.keys.outboxes_sent(), 'bytes', Buffer.byteLength(before));
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1', 'e2']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('loses nothing if failovers lose its last entries, also to a master whose clock is behind', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    const [home, to] = bus.partitions.all as [Partition, Partition];
    const sent = home.keys.outboxes_sent();
    const lastUs = async () => Number(await home.redis.hget(sent, 'last'));
    const nowUs = async () => {
      const [seconds, microseconds] = await home.redis.time();
      return Number(seconds) * 1_000_000 + Number(microseconds);
    };
    const publish = async (...events: string[]) => {
      for (const event of events) await bus.publish(event);
      await bus.runJobs();
    };
    /** Fails over: the other partition has applied entries of the last `us` µs, which the new master lacks. */
    const fails = async (us: number) => to.redis.hset(to.keys.outboxes_applied(), '0', (await lastUs()) + us);
    await publish('e1');
    await home.redis.hset(sent, 'last', (await nowUs()) + 5_000_000);
    await fails(1_000_000);
    await publish('e2', 'e3');
    assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3']);
    await fails(100_000);
    const failedUs = await nowUs();
    await until(async () => (await nowUs()) > failedUs + 100_000, { what: 'the failover takes longer' });
    await publish('e4', 'e5');
    assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3', 'e4', 'e5']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('keeps what another partition cannot take yet, in order, while the others go on', async () => {
    const [late, well] = [bus.token(1), bus.token(2)];
    for (const token of [late, well]) await bus.subscribe(token, bus.topic);
    const failing = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    await bus.publish('e1');
    const [home, to] = bus.partitions.all as [Partition, Partition];
    await assert.rejects(failing.flush(home, to), StorageUnavailable);
    for (const event of ['e2', 'e3']) {
      const { grants } = await new Queue(home, 'aux', SETTINGS).acquire(['w']);
      const holder = { worker: 'w', lease: grants[0]?.lease ?? 0, leaseMs: LEASE_MS };
      assert.equal(await failing.empty(home, holder, new AbortController().signal), 'ended');
      await bus.publish(event);
    }
    assert.deepEqual(await bus.queued(well), ['e1', 'e2']);
    assert.equal((await bus.entries(1)).length, 2);
    await assertConsistent(home);
    await bus.outbox.flush(home, to);
    assert.deepEqual(await bus.queued(late), ['e1', 'e2', 'e3']);
    await bus.runJobs();
    for (const token of [late, well]) assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('is applied in several calls if its entries make too many copies for one', async () => {
    const tokens = Array.from({ length: 100 }, (_, n) => bus.token(1, `alice_${n}`));
    for (const token of tokens) assert.equal(await bus.subscribe(token, bus.topic), 'ok');
    const events = Array.from({ length: 2000 }, (_, n) => `e${n}`);
    for (const some of slicesOf(events, 400)) assert.equal(await bus.publish(...some), 'accepted');
    const copies: number[] = [];
    const [home, to, ...others] = bus.partitions.all as [Partition, Partition, Partition, Partition];
    const run: Partition['run'] = async (script, args) => {
      const reply = await to.run(script, args);
      const { addedByTopic } = reply as Reply<'apply_outbox'>;
      copies.push(
        sumOf(addedByTopic.map(({ events, subscribers }) => events * subscribers.split('\n').length)),
      );
      return reply;
    };
    const confirmed = new Partitions(home, Object.create(to, { run: { value: run } }), ...others);
    await bus.runJobs(outboxOf({ confirmed, marks: { refresh: async () => {} } }));
    assert.deepEqual(copies, [120_000, 80_000], 'the entry that reaches 100,000 is the last of a call');
    for (const token of tokens) assert.deepEqual(await bus.queued(token), events);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('is flushed only when entries are applied that a job has set aside meanwhile', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const failing = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    const [home, to] = bus.partitions.all as [Partition, Partition];
    const interposed = beforeScript(home, 'read_outbox', async () => {
      const { grants } = await new Queue(home, 'aux', SETTINGS).acquire(['w']);
      const holder = { worker: 'w', lease: grants[0]?.lease ?? 0, leaseMs: LEASE_MS };
      assert.equal(await failing.empty(home, holder, new AbortController().signal), 'ended');
      assert.deepEqual([(await bus.entries()).length, (await bus.entries(1)).length], [0, 1]);
    });
    await bus.outbox.flush(interposed, to);
    assert.deepEqual(await bus.queued(token), ['e1']);
    await bus.runJobs();
    await assertPartitionsConsistent(bus.partitions);
  });

  test('is applied while the mark of another topic cannot be removed, because its home hangs', async () => {
    const other = nameIn(bus.partitions, 2, 'gadgets');
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic, other);
    const hanging = Promise.withResolvers<void>();
    const asked: string[] = [];
    const refresh = (_: Partition, topics: readonly string[]) => {
      asked.push(...topics);
      return hanging.promise;
    };
    const outbox = outboxOf({ confirmed: bus.partitions, marks: { refresh } });
    const { redis, keys } = bus.partitions.ofSubscriber(token);
    await redis.srem(keys.topic_subscribers(other), token);
    await bus.publisher.publish({ topic: other, client: 'shop', events: ['f1'] });
    await bus.runJobs(outbox);
    assert.deepEqual(asked, [other]);
    await bus.publish('e1');
    await bus.runJobs(outbox);
    assert.deepEqual(await bus.queued(token), ['e1']);
    hanging.resolve();
  });

  test('sets entries aside again while earlier ones are set aside', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    const failing = outboxWith(() => Promise.reject(new Error('away')));
    await bus.publish('e1');
    await bus.runJobs(failing);
    assert.equal((await bus.entries(1)).length, 1);
    await bus.publish('e2');
    const { redis, keys } = bus.homeOfTopic();
    assert.equal(await redis.zcard(keys.jobs_scheduled('aux')), 1);
    const { grants } = await new Queue(bus.homeOfTopic(), 'aux', SETTINGS).acquire(['w']);
    const holder = { worker: 'w', lease: grants[0]?.lease ?? 0, leaseMs: LEASE_MS };
    assert.equal(await bus.outbox.empty(bus.homeOfTopic(), holder, new AbortController().signal), 'ended');
    assert.deepEqual(await bus.queued(token), []);
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1', 'e2']);
    await assertPartitionsConsistent(bus.partitions);
  });
});

test('the job of an outbox waits a moment for a master that hangs, and other jobs for it do not ask', async () => {
  await bus.subscribe(bus.token(1), bus.topic);
  await bus.publish('e1');
  const home = bus.homeOfTopic();
  const answer = Promise.withResolvers<never>();
  let asked = 0;
  const outbox = outboxWith(() => {
    asked++;
    return answer.promise;
  });
  await bus.runJobs(outbox);
  const holder = { worker: 'w', lease: 1, leaseMs: LEASE_MS };
  const empty = () => outbox.emptyAside(home, 1, holder, () => false);
  await assert.rejects(empty(), { name: 'StorageUnavailable', why: 'partition 1 does not answer' });
  assert.equal(asked, 1);
  answer.reject(new StorageUnavailable(new Error('cut')));
  await until(() => empty().catch(() => asked === 2), { what: 'it is asked again' });
  await bus.runJobs();
  assert.deepEqual(await bus.queued(bus.token(1)), ['e1']);
});

for (const [what, list, entry] of [
  ['an outbox with an entry that has no head', undefined, 'e1'],
  ['entries set aside of which one is damaged', '1', `${'1'.padStart(16, '0')}1:\xc1`],
] as const)
  test(`the job of ${what} stays, and says so`, async () => {
    const { log, lines } = capturedLog();
    const [partition] = bus.partitions.all as [Partition];
    const key = list === undefined ? partition.keys.outbox() : partition.keys.outbox_aside(list);
    await partition.redis.rpush(key, entry);
    const job = packJob('outbox', list === undefined ? [] : [Number(list)]);
    await partition.run('enqueue', { q: 'aux', job, leaseMs: LEASE_MS });
    const [grant] = (await new Queue(partition, 'aux', SETTINGS).acquire(['w'])).grants;
    const { partitions, outbox } = bus;
    const run = outboxJob({ partition, partitions, outbox, leaseMs: LEASE_MS, onFull: () => {}, log });
    const settlement = await run(grant as Grant, new AbortController().signal);
    assert.equal(settlement.end, 'retry');
    assert.equal(lines[0]?.msg, 'a job failed; nothing is lost, and it runs again in ten seconds');
    assert.equal(await partition.redis.llen(key), 1);
  });

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
    await bus.subscriptions.remove(bus.token(1));
    assert.deepEqual(await bus.topics.names(), [bus.topic]);
    await bus.subscriptions.remove(bus.token(2));
    assert.deepEqual(await bus.topics.names(), []);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('ends with the topic, which is then gone', async () => {
    await bus.subscribe(bus.token(0), bus.topic);
    await bus.subscribe(bus.token(1), bus.topic);
    await bus.publish('e1');
    assert.deepEqual(await bus.topics.remove(bus.topic), { outcome: 'ok', delayed: 0 });
    assert.deepEqual(await bus.topics.names(), []);
    assert.deepEqual(await bus.queued(bus.token(1)), ['e1'], 'what was accepted before is delivered');
    assert.deepEqual(
      (await bus.subscriptions.list()).map(({ topics }) => topics),
      [[], []],
    );
    await bus.runJobs();
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
    const leaving = new Subscriptions(
      new Partitions(home, deleting, ...rest),
      DEFAULTS,
      new DeadLetters(bus.partitions, DEFAULTS, () => {}),
      bus.outbox,
    );
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
      await Promise.all([bus.subscriptions.remove(token), bus.subscribe(other, bus.topic)]);
      await bus.publish(`e${n}`);
      await bus.runJobs();
      assert.deepEqual(await bus.queued(other), [`e${n}`]);
      await bus.subscriptions.remove(other);
    }
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

  test('is refused if there would be too many topics', async () => {
    const subscriptions = new Subscriptions(
      bus.partitions,
      { ...DEFAULTS, maxTopics: 1 },
      new DeadLetters(bus.partitions, DEFAULTS, () => {}),
      bus.outbox,
    );
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

afterEach(async () => {
  const strays = await redis.store.redis.keys('[^{]*');
  assert.deepEqual(strays, [], 'every key has the tag of its partition');
});

describe('an outbox, while the ACL of Redis forbids a command,', () => {
  const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
  afterEach(() => permit('+@all'));

  test('loses no event either if another program has written a key too', async () => {
    const token = bus.token(1);
    const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', maxEvents: 2 };
    await bus.subscriptions.subscribe(token, wanted);
    await bus.publish('first');
    await bus.runJobs();
    await bus.publish('second');
    const to = bus.partitions.all[1] as Partition;
    await to.redis.set(to.keys.batches_room(), 'x');
    await permit('-rpushx');
    await assert.rejects(bus.outbox.flush(bus.homeOfTopic(), to), StorageForbidden);
    await permit('+@all');
    await to.redis.del(to.keys.batches_room());
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['first', 'second']);
  });

  for (const command of ['rpush', 'llen', 'hset', 'hincrby', 'zadd', 'hdel', 'object'])
    test(`loses no event and repeats none time and again (${command})`, async () => {
      const tokens = [1, 1, 2].map((index, n) => bus.token(index, `alice${n}`));
      for (const [n, token] of tokens.entries()) {
        const maxEvents = n === 1 ? 2 : 100;
        const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', maxEvents };
        await bus.subscriptions.subscribe(token, wanted);
      }
      await bus.publish('first');
      await bus.runJobs();
      for (const event of ['e1', 'e2', 'e3']) await bus.publish(event);
      await permit(`-${command}`);
      for (let i = 0; i < 4; i++) {
        await bus.outbox.flush(bus.homeOfTopic(), bus.partitions.all[1] as Partition).catch(() => {});
        await bus.outbox.flush(bus.homeOfTopic(), bus.partitions.all[2] as Partition).catch(() => {});
      }
      await assert.rejects((bus.partitions.all[1] as Partition).confirmPermitted(), (error) =>
        reasonOf(error).toLowerCase().includes(command),
      );
      await permit('+@all');
      for (const partition of bus.partitions.all) await sweep(partition);
      await bus.runJobs();
      for (const token of tokens) {
        const queued = await bus.queued(token);
        assert.deepEqual(new Set(queued), new Set(['first', 'e1', 'e2', 'e3']));
        assert.ok(queued.length <= 7, `${command} ${queued}`);
      }
      for (const partition of bus.partitions.all) await sweep(partition);
      await assertPartitionsConsistent(bus.partitions);
    });
});

for (const name of ['gauge_events', 'gauge_batches', 'batches_index'] as const)
  test(`an outbox entry is applied once, although another program has written the key ${name}`, async () => {
    const tokens = ['alice', 'bob'].map((stem) => bus.token(1, stem));
    const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', maxEvents: 1 };
    for (const token of tokens) await bus.subscriptions.subscribe(token, wanted);
    await bus.publish('first');
    await bus.runJobs();
    await bus.publish('second');
    const to = bus.partitions.all[1] as Partition;
    await to.redis.del(to.keys[name]());
    await to.redis.set(to.keys[name](), 'x');
    for (let i = 0; i < 3; i++) await bus.outbox.flush(bus.homeOfTopic(), to).catch(() => {});
    for (const token of tokens) assert.deepEqual(await bus.queued(token), ['first', 'second']);
    await redis.flush();
  });

for (const [what, broken] of [
  ['batches_open', (keys: Keyspace) => keys.batches_open()],
  ['jobs_index', (keys: Keyspace) => keys.jobs_index('aux')],
] as const)
  test(`a delayed event enters the outbox once, although another program has written the key ${what}`, async () => {
    const tokens = [bus.token(0), bus.token(1)];
    for (const token of tokens) await bus.subscribe(token, bus.topic);
    await bus.publish('first');
    await bus.runJobs();
    const home = bus.homeOfTopic();
    const events = [{ id: 'e1', text: 'second', rest: undefined, delay: 1, at: undefined }];
    const publication = {
      topic: bus.topic,
      client: 'shop',
      events,
      digest: undefined,
      fingerprint: undefined,
    };
    await home.run('delay', { ...DELAY_LIMITS, uidSeed: uidSeed(), publications: [publication] });
    const broke = broken(home.keys);
    await home.redis.del(broke);
    await home.redis.set(broke, 'x');
    const publish = (turn: number) =>
      home.runPermitted('publish_delayed', {
        uidSeed: uidSeed(),
        firstClient: turn,
        maxOutboxBytes: 1_000_000,
      });
    const isRefused = (turn: number) => publish(turn).then(() => false, isWrongType);
    await until(() => isRefused(0), { what: 'the event is due' });
    for (let turn = 1; turn < 4; turn++) await isRefused(turn);
    await home.redis.del(broke);
    await sweep(home);
    const crossing = { partition: home, partitions: bus.partitions, leaseMs: LEASE_MS };
    await sweepCrossing(crossing, new AbortController().signal);
    await publish(4);
    await bus.runJobs();
    for (const token of tokens) assert.deepEqual(await bus.queued(token), ['first', 'second']);
    await assertPartitionsConsistent(bus.partitions);
  });
