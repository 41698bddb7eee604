import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { assertPartitionsConsistent, nameIn } from '../../../harness/scripts/crossing.ts';
import { until } from '../../../harness/until.ts';
import { slicesOf } from '../../../src/chunks.ts';
import { prepareStorage } from '../../../src/maintenance/schema.ts';
import { readGauges } from '../../../src/metrics/gauges.ts';
import type { Reply } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { msOf } from '../../../src/store/replies.ts';
import { sumOf } from '../../../src/sum.ts';
import { bus, LEASE_MS, outboxOf } from './scene.ts';

describe('with several partitions, a publish', () => {
  test('reaches the subscribers of all of them, each event once and in order', async () => {
    const tokens = [0, 1, 2, 3].map((index) => bus.token(index));
    for (const token of tokens) assert.equal(await bus.subscribe(token, bus.topic), 'ok');
    for (let n = 0; n < 50; n++) assert.equal(await bus.publish(`e${n}`, `f${n}`), 'accepted');
    const events = Array.from({ length: 50 }, (_, n) => [`e${n}`, `f${n}`]).flat();
    assert.deepEqual(await bus.queued(tokens[0] as string), events, 'at once where the topic lives');
    assert.deepEqual(await bus.queued(tokens[1] as string), []);
    const { outboxes } = await readGauges(bus.partitions, {
      redisMaxBytes: 0,
      redisMinFreeBytes: 0,
      leaseMs: 30_000,
    });
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
    const wanted = {
      topics: [bus.topic, near],
      callback: 'https://alice.example/',
      uuid: 'u',
      max_events: 2,
    };
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
    await home.redis.hset(sent, 'run', 'of the lost master');
    await fails(5_000_000);
    await publish('e6', 'e7');
    assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7']);
    await assertPartitionsConsistent(bus.partitions);
  });

  test('loses nothing if a failover loses its first entry of all, to a master whose clock is behind', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    const [home, to] = bus.partitions.all as [Partition, Partition];
    await home.run('scrub', { leaseMs: 60_000, hasOthers: true });
    await home.redis.hset(home.keys.outboxes_sent(), 'run', 'of the lost master');
    const lostMs = msOf(await home.redis.time()) + 5_000;
    await to.redis.hset(to.keys.outboxes_applied(), '0', lostMs * 1000);
    await bus.publish('e1');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1']);
  });

  test('loses nothing of what a partition accepts after its Redis was emptied, or an old backup restored', async () => {
    const token = bus.token(1);
    const [home, ...others] = bus.partitions.all as [Partition, ...Partition[]];
    const [to] = others as [Partition];
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    await bus.runJobs();
    // After six failovers, for example, numbers are six minutes ahead.
    const ahead = Number(await home.redis.hget(home.keys.outboxes_sent(), 'last')) + 360_000_000;
    await to.redis.hset(to.keys.outboxes_applied(), '0', ahead);
    const { log, lines } = capturedLog();
    const boot = () => prepareStorage(home, LEASE_MS, log, others);
    await boot();
    await bus.publish('e2');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1', 'e2']);
    await boot();
    assert.equal(lines.filter(({ msg }) => /has forgotten what it sent/.test(String(msg))).length, 1);
    await home.redis.del(home.keys.outboxes_sent());
    await boot();
    await bus.publish('e3');
    await bus.runJobs();
    assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3']);
  });

  test('counts from when it was accepted, also if outbox numbers are ahead of the clock', async () => {
    const token = bus.token(1);
    const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', max_events: 1 };
    await bus.subscriptions.subscribe(token, wanted);
    const home = bus.homeOfTopic();
    const nowMs = async () => msOf(await home.redis.time());
    await bus.publish('e1');
    await bus.runJobs();
    await home.redis.hset(home.keys.outboxes_sent(), 'run', 'of the lost master');
    await bus.publish('e2');
    const acceptedMs = await nowMs();
    await until(async () => (await nowMs()) > acceptedMs);
    await bus.runJobs();
    const { redis: commands, keys } = bus.partitions.ofSubscriber(token);
    const [, second = ''] = await commands.zrange(keys.batches_queued(token), '0', '-1');
    const [, created, , ...events] = await commands.lrange(keys.batch(second), 0, -1);
    assert.deepEqual(events, ['e2']);
    assert.ok(Number(created) <= acceptedMs, `accepted by ${acceptedMs}, opened at ${created}`);
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
      const { published } = reply as Reply<'apply_outbox'>;
      copies.push(sumOf(published.map(({ events, subscribers }) => events * subscribers.split('\n').length)));
      return reply;
    };
    const confirmed = new Partitions(home, Object.create(to, { run: { value: run } }), ...others);
    await bus.runJobs(outboxOf({ confirmed, marks: { refresh: async () => {} } }));
    assert.deepEqual(copies, [120_000, 80_000], 'the entry that reaches 100,000 is the last of a call');
    for (const token of tokens) assert.deepEqual(await bus.queued(token), events);
    await assertPartitionsConsistent(bus.partitions);
  });
});
