import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { DELAY_LIMITS } from '../../../harness/scripts/bus_inputs.ts';
import { assertPartitionsConsistent, nameIn } from '../../../harness/scripts/crossing.ts';
import { until } from '../../../harness/until.ts';
import type { Grant } from '../../../src/delivering/grant.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { StorageForbidden, StorageLost } from '../../../src/errors.ts';
import { uidSeed } from '../../../src/ids.ts';
import { reasonOf } from '../../../src/log.ts';
import { outboxJob } from '../../../src/maintenance/outbox_job.ts';
import { sweep } from '../../../src/maintenance/sweep/sweep.ts';
import { sweepCrossing } from '../../../src/maintenance/sweep_crossing.ts';
import { packJob } from '../../../src/store/job.ts';
import type { Keyspace } from '../../../src/store/keys.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { isWrongType } from '../../../src/store/wrong_type.ts';
import { bus, LEASE_MS, redis, SETTINGS } from './scene.ts';

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

describe('an outbox, while the ACL of Redis forbids a command,', () => {
  const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
  afterEach(() => permit('+@all'));

  test('loses no event either if another program has written a key too', async () => {
    const token = bus.token(1);
    const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', max_events: 2 };
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
        const max_events = n === 1 ? 2 : 100;
        const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', max_events };
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
      const tried = (bus.partitions.all[1] as Partition).run('try_commands', {});
      const refused = tried.then((reply) => assert.fail(reply.command));
      await assert.rejects(refused, (error) => reasonOf(error).toLowerCase().includes(command));
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
    const wanted = { topics: [bus.topic], callback: 'https://alice.example/', uuid: 'u', max_events: 1 };
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
  ['gauge_events', (keys: Keyspace) => keys.gauge_events()],
  ['topic_subscribers', (keys: Keyspace) => keys.topic_subscribers(bus.topic)],
] as const)
  test(`an outbox goes on although another program has written the key ${what}, and the log says so`, async () => {
    const [token, other] = [bus.token(1), nameIn(bus.partitions, 0, 'gadgets')];
    await bus.subscribe(token, bus.topic, other);
    const to = bus.partitions.all[1] as Partition;
    await to.redis.del(broken(to.keys));
    await to.redis.set(broken(to.keys), 'x');
    await bus.publish('e1');
    await bus.publisher.publish({ topic: other, client: 'shop', events: ['e2'] });
    await bus.outbox.flush(bus.homeOfTopic(), to);
    assert.equal((await bus.queued(token)).at(-1), 'e2');
    await bus.publish('e3');
    await bus.publisher.publish({ topic: other, client: 'shop', events: ['e4'] });
    await bus.runJobs();
    assert.equal((await bus.queued(token)).at(-1), 'e4');
    for (const { redis, keys } of bus.partitions.all)
      assert.equal(await redis.exists(keys.outbox_aside('1')), 0);
    assert.equal(bus.logged.lines.length, 1);
    assert.match(String(bus.logged.lines[0]?.msg), /^entries of an outbox failed; what was stored half-way/);
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

test('an outbox keeps its entries while a partition has lost its data, until a backup brings that back', async () => {
  const token = bus.token(1);
  const { prefix, redis: client } = bus.partitions.ofSubscriber(token);
  const keysThere = () => client.keys(`${prefix}*`);
  await bus.subscribe(token, bus.topic);
  await bus.publish('first');
  const backup: [string, Buffer][] = [];
  for (const key of await keysThere()) backup.push([key, await client.dumpBuffer(key)]);
  await client.del(await keysThere());
  // A process that has not yet noticed the loss may accept a subscription.
  await bus.subscribe(bus.token(1, 'bob'), bus.topic);
  const to = bus.partitions.ofSubscriber(token);
  await assert.rejects(bus.outbox.flush(bus.homeOfTopic(), to), StorageLost);
  await client.del(await keysThere());
  for (const [key, dump] of backup) await client.restore(key, 0, dump);
  await bus.runJobs();
  assert.deepEqual(await bus.queued(token), ['first']);
});
