import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertPartitionsConsistent, nameIn } from '../../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { until } from '../../../harness/until.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { StorageFull, StorageUnavailable } from '../../../src/errors.ts';
import type { Arguments } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { beforeScript, bus, LEASE_MS, outboxOf, outboxWith, SETTINGS } from './scene.ts';

describe('an outbox', () => {
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

  test('is flushed only when entries are applied that a job has set aside meanwhile', async () => {
    const token = bus.token(1);
    await bus.subscribe(token, bus.topic);
    await bus.publish('e1');
    const failing = outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away'))));
    const [home, to] = bus.partitions.all as [Partition, Partition];
    let isSetAside = false;
    const interposed = beforeScript(home, 'read_outbox', async () => {
      const { grants } = await new Queue(home, 'aux', SETTINGS).acquire(['w']);
      const holder = { worker: 'w', lease: grants[0]?.lease ?? 0, leaseMs: LEASE_MS };
      assert.equal(await failing.empty(home, holder, new AbortController().signal), 'ended');
      assert.deepEqual([(await bus.entries()).length, (await bus.entries(1)).length], [0, 1]);
      isSetAside = true;
    });
    await bus.outbox.flush(interposed, to);
    assert.ok(isSetAside);
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

test('entries set aside are applied by as many at a time as fit into Redis, and stay if a single one does not', async () => {
  const token = bus.token(1);
  await bus.subscribe(token, bus.topic);
  for (const event of ['e1', 'e2', 'e3', 'e4', 'e5']) await bus.publish(event);
  await bus.runJobs(outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away')))));
  const [home, to, ...others] = bus.partitions.all as [Partition, Partition, Partition, Partition];
  let room = 0;
  const applied: number[] = [];
  const run = async (script: 'apply_outbox', args: Arguments<'apply_outbox'>) => {
    const entries = args.sources[0]?.entries.length ?? 0;
    if (entries > room) throw new StorageFull(new Error('OOM'));
    applied.push(entries);
    return to.run(script, args);
  };
  const confirmed = new Partitions(home, Object.create(to, { run: { value: run } }), ...others);
  const outbox = outboxOf({ confirmed, marks: { refresh: async () => {} } });
  await assert.rejects(outbox.emptyAside(home, 1), StorageFull);
  assert.equal((await bus.entries(1)).length, 5);
  room = 3;
  await outbox.emptyAside(home, 1);
  assert.deepEqual(applied, [2, 3]);
  assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3', 'e4', 'e5']);
  await bus.runJobs();
  await assertPartitionsConsistent(bus.partitions);
});

test('what is applied of entries set aside is removed, although the job is asked to stop meanwhile', async () => {
  const token = bus.token(1);
  await bus.subscribe(token, bus.topic);
  for (const event of ['e1', 'e2', 'e3', 'e4']) await bus.publish(event);
  await bus.runJobs(outboxWith(() => Promise.reject(new StorageUnavailable(new Error('away')))));
  const [home, to, ...others] = bus.partitions.all as [Partition, Partition, Partition, Partition];
  const stopping = new AbortController();
  const run = async (script: 'apply_outbox', args: Arguments<'apply_outbox'>) => {
    stopping.abort();
    if ((args.sources[0]?.entries.length ?? 0) > 1) throw new StorageFull(new Error('OOM'));
    return to.run(script, args);
  };
  const confirmed = new Partitions(home, Object.create(to, { run: { value: run } }), ...others);
  const outbox = outboxOf({ confirmed, marks: { refresh: async () => {} } });
  assert.equal(await outbox.emptyAside(home, 1, undefined, stopping.signal), 'left');
  assert.deepEqual([(await bus.entries(1)).length, await bus.queued(token)], [3, ['e1']]);
  await bus.runJobs();
  assert.deepEqual(await bus.queued(token), ['e1', 'e2', 'e3', 'e4']);
  await assertPartitionsConsistent(bus.partitions);
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
  const empty = () => outbox.emptyAside(home, 1, holder, new AbortController().signal);
  await assert.rejects(empty(), { name: 'StorageUnavailable', why: 'partition 1 is away' });
  assert.equal(asked, 1);
  answer.reject(new StorageUnavailable(new Error('cut')));
  await until(() => empty().catch(() => asked === 2), { what: 'it is asked again' });
  await bus.runJobs();
  assert.deepEqual(await bus.queued(bus.token(1)), ['e1']);
});
