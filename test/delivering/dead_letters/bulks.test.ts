import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { buryAll, readDeadLetters } from '../../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { until } from '../../../harness/until.ts';
import { readConfig } from '../../../src/config.ts';
import { Bulks, ROOT_OWNER } from '../../../src/delivering/dead_letters/bulks.ts';
import type { Grant } from '../../../src/delivering/grant.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { StorageForbidden, StorageUnavailable } from '../../../src/errors.ts';
import { bulkJob } from '../../../src/maintenance/bulk_job.ts';
import { sweep } from '../../../src/maintenance/sweep/sweep.ts';
import { packJob } from '../../../src/store/job.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const bulks = () => new Bulks(new Partitions(redis.store));
const QUEUE = { laneLimit: 100, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'root' });
const { log, lines } = capturedLog();
let revived = 0;

const dead = async () => Object.values(await readDeadLetters(redis.store));
const queued = async (token: string) =>
  Number((await redis.store.redis.hget(redis.store.keys.gauge_batches(), token)) ?? 0);

/** Makes `count` dead letters of a subscriber, all with this reason. */
async function deaths(token: string, seed: string, count: number, reason = 'max_attempts'): Promise<void> {
  await bus.subscribe(token, { topics: [token], max: 1 });
  await bus.publish(seed, token, Array<string>(count).fill('e'));
  const before = new Set(await ids());
  await buryAll(redis.store);
  const { redis: commands, keys } = redis.store;
  for (const id of await ids())
    if (!before.has(id)) await commands.hset(keys.dead_letter_about(id), 'reason', reason);
}
const ids = () => redis.store.redis.zrange(redis.store.keys.dead_letters_index(), '0', '-1');

/**
 * Runs up to `turns` jobs of the queue `aux`. If `stopping` is aborted, a job makes no step, as when a process stops.
 */
async function work(turns: number, stopping = new AbortController().signal): Promise<void> {
  const queue = new Queue(redis.store, 'aux', QUEUE);
  const recorder = {
    added(_: string, events: number) {
      revived += events;
    },
  };
  const run = bulkJob({ partition: redis.store, config, recorder, stopping, log });
  for (let turn = 0; turn < turns; turn++) {
    const [grant] = (await queue.acquire(['w1'])).grants;
    if (!grant) break;
    const settlement = await run(grant, new AbortController().signal);
    if (settlement.end === 'done') await queue.ack({ grant, ...settlement.success });
    else if (settlement.end === 'retry') await queue.nack(grant, { ...settlement.retry, delayMs: 0 });
  }
  await queue.retire(['w1']);
}

beforeEach(async () => {
  revived = 0;
  await redis.flush();
});
afterEach(() => assertConsistent(redis.store));

/** Begins a purge in two partitions, and counts its letters. `step` has the arguments of its next step. */
async function countedInTwo() {
  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  const all = new Bulks(partitions);
  await all.begin(ROOT_OWNER, 'purge', { tokens: undefined });
  const { id = '' } = (await all.find(ROOT_OWNER)) ?? {};
  const step = { owner: ROOT_OWNER, id, listIndex: 0, token: undefined, max: 100 };
  for (const partition of partitions.all) await partition.run('count_bulk', step);
  return { partitions, all, id, step };
}

describe('a bulk', () => {
  test('counts first, waits, and then retries exactly what matched', async () => {
    await deaths('alice', 'a', 250);
    await deaths('alice', 'b', 30, 'max_age');
    await deaths('bob', 'c', 20, 'max_age');
    assert.ok(await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined, reason: 'max_age' }));
    await work(5);
    const counted = await bulks().find(ROOT_OWNER);
    assert.deepEqual([counted?.state, counted?.matched, counted?.done], ['counted', 50, 0]);
    assert.equal((await dead()).length, 300);
    await deaths('bob', 'd', 1, 'max_age'); // died too late
    assert.ok(await bulks().confirm(ROOT_OWNER, counted?.id ?? ''));
    await work(5);
    const ended = await bulks().find(ROOT_OWNER);
    assert.deepEqual([ended?.state, ended?.matched, ended?.done, ended?.left], ['ended', 50, 50, 0]);
    assert.deepEqual([await queued('alice'), await queued('bob'), revived], [30, 20, 50]);
    assert.equal((await dead()).length, 251);
  });

  test('handles all letters although the ACL of Redis forbade a command meanwhile', async () => {
    await deaths('alice', 'a', 250);
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined });
    await work(5);
    await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
    const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
    await permit('-zadd');
    const { signal } = new AbortController();
    const run = bulkJob({ partition: redis.store, config, recorder: { added() {} }, stopping: signal, log });
    const [owner, id] = [ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id];
    const grant = { job: { name: 'bulk', args: [owner, id] } } as unknown as Grant;
    for (let i = 0; i < 4; i++) await assert.rejects(run(grant, signal), StorageForbidden);
    await permit('+@all');
    const findings = await sweep(redis.store);
    assert.ok(findings.length <= 5, 'no more than one letter was left half-way');
    await work(5);
    assert.equal((await bulks().find(ROOT_OWNER))?.state, 'ended');
    assert.deepEqual(await dead(), []);
    await sweep(redis.store);
    assert.equal(await queued('alice'), 250);
  });

  test('is kept while it waits for memory', async () => {
    await deaths('alice', 'a', 3);
    const { redis: commands, keys } = redis.store;
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined });
    await work(5);
    await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
    await commands.pexpire(keys.bulk(ROOT_OWNER), 60_000);
    await commands.config('SET', 'maxmemory', 1);
    await work(1).finally(() => commands.config('SET', 'maxmemory', 0));
    assert.ok((await commands.pttl(keys.bulk(ROOT_OWNER))) > 80_000_000, 'it is there for another day');
    await work(5);
    assert.deepEqual([(await bulks().find(ROOT_OWNER))?.done, await dead()], [3, []]);
  });

  test('that fails is logged without the token of its client, which can be a credential', async () => {
    await redis.store.redis.set(redis.store.keys.bulk('shop--0123456789abcdef'), 'no hash');
    const { signal } = new AbortController();
    const run = bulkJob({ partition: redis.store, config, recorder: { added() {} }, stopping: signal, log });
    lines.length = 0;
    const job = { name: 'bulk', args: ['shop--0123456789abcdef', 'the-id', 'run'] };
    await run({ job } as unknown as Grant, signal);
    assert.match(JSON.stringify(lines), /the-id.*a job failed/);
    assert.doesNotMatch(JSON.stringify(lines), /0123456789abcdef/);
    await redis.flush();
  });

  for (const command of ['hset', 'pexpire', 'hmget', 'zrangebyscore'])
    test(`counts each letter once although the ACL of Redis forbade ${command} meanwhile`, async () => {
      await deaths('alice', 'a', 3);
      await deaths('bob', 'b', 4);
      await bulks().begin(ROOT_OWNER, 'retry', { tokens: ['alice', 'bob'] });
      await redis.store.redis.acl('SETUSER', 'default', `-${command}`);
      const { id } = (await bulks().find(ROOT_OWNER)) ?? assert.fail();
      const { signal } = new AbortController();
      const run = bulkJob({
        partition: redis.store,
        config,
        recorder: { added() {} },
        stopping: signal,
        log,
      });
      const grant = { job: { name: 'bulk', args: [ROOT_OWNER, id] } } as unknown as Grant;
      for (let i = 0; i < 3; i++) await assert.rejects(run(grant, signal), StorageForbidden);
      await redis.store.redis.acl('SETUSER', 'default', '+@all');
      await work(5);
      assert.equal((await bulks().find(ROOT_OWNER))?.matched, 7);
    });

  for (const act of ['retry', 'purge'] as const)
    for (const [name, done] of [
      ['dead_letter', 149],
      ['attempts', 149],
      ['dead_letter_about', 150],
    ] as const)
      test(`goes past a letter whose key ${name} another program has written (${act})`, async () => {
        await deaths('alice', 'a', 150);
        const bad = (await ids())[20] ?? '';
        await bulks().begin(ROOT_OWNER, act, { tokens: undefined });
        await work(5);
        await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
        const { redis: commands, keys } = redis.store;
        await commands.del(keys[name](bad));
        await commands.set(keys[name](bad), 'x');
        await work(5);
        const { state, ...ended } = (await bulks().find(ROOT_OWNER)) ?? assert.fail();
        assert.deepEqual([state, ended.done, ended.left], ['ended', done, 150 - done]);
        assert.equal((await ids()).length, 150 - done);
        await redis.flush();
      });

  for (const [act, name] of [
    ['retry', 'batches_queued'],
    ['retry', 'subscriber'],
    ['retry', 'dead_letters_of'],
    ['purge', 'dead_letters_of'],
  ] as const)
    for (const tokens of [undefined, ['alice', 'bob']])
      test(`passes over a subscriber whose key ${name} another program has written (${act} ${tokens ?? 'all'})`, async () => {
        await deaths('alice', 'a', 3);
        await deaths('bob', 'b', 3);
        await bulks().begin(ROOT_OWNER, act, { tokens });
        await work(5);
        await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
        const { redis: commands, keys } = redis.store;
        await commands.del(keys[name]('alice'));
        await commands.set(keys[name]('alice'), 'x');
        await work(5);
        const ended = await bulks().find(ROOT_OWNER);
        assert.deepEqual([ended?.state, ended?.done], ['ended', 3]);
        assert.equal((await dead()).length, 3);
        await redis.flush();
      });

  test('goes on after an error that nobody expected, such as an index that another program has written', async () => {
    await deaths('alice', 'a', 3);
    await bulks().begin(ROOT_OWNER, 'purge', { tokens: undefined });
    const { redis: commands, keys } = redis.store;
    await commands.rename(keys.dead_letters_index(), 'kept');
    await commands.set(keys.dead_letters_index(), 'x');
    lines.length = 0;
    await work(1);
    assert.deepEqual(
      lines.map(({ msg }) => msg),
      ['a job failed; nothing is lost, and it runs again in ten seconds'],
    );
    await commands.rename('kept', keys.dead_letters_index());
    await work(5);
    assert.deepEqual(
      [(await bulks().find(ROOT_OWNER))?.state, (await bulks().find(ROOT_OWNER))?.matched],
      ['counted', 3],
    );
  });

  test('purges letters of a subscriber whose queue another program has written', async () => {
    await deaths('alice', 'a', 3);
    await bulks().begin(ROOT_OWNER, 'purge', { tokens: undefined });
    await work(5);
    await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
    await redis.store.redis.set(redis.store.keys.batches_queued('alice'), 'x');
    await work(5);
    assert.deepEqual([(await bulks().find(ROOT_OWNER))?.done, await dead()], [3, []]);
    await redis.store.redis.del(redis.store.keys.batches_queued('alice'));
  });

  test('counts only letters that died at the time where its filter begins, or later', async () => {
    await deaths('alice', 'a', 3);
    await deaths('bob', 'b', 3);
    const { redis: commands, keys } = redis.store;
    for (const [n, id] of (await ids()).entries()) {
      const token = String(await commands.lindex(keys.dead_letter(id), 0));
      for (const index of [keys.dead_letters_index(), keys.dead_letters_of(token)])
        await commands.zadd(index, 1_600_000_000_000 + n, id);
    }
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: ['alice', 'bob'], fromMs: 1_600_000_000_001 });
    await work(5);
    assert.equal((await bulks().find(ROOT_OWNER))?.matched, 5);
    await redis.flush();
  });

  test('purges the letters of some subscribers alone, however many died in one millisecond', async () => {
    await deaths('alice', 'a', 230);
    await deaths('bob', 'b', 5);
    const { redis: commands, keys } = redis.store;
    for (const id of await ids()) {
      await commands.hset(keys.dead_letter_about(id), 'died_at', 1_600_000_000_000);
      const token = String(await commands.lindex(keys.dead_letter(id), 0));
      for (const index of [keys.dead_letters_index(), keys.dead_letters_of(token)])
        await commands.zadd(index, 1_600_000_000_000, id);
    }
    await bulks().begin('alice', 'purge', { tokens: ['join:x:alice', 'alice'] });
    await work(5);
    const { id = '', matched } = (await bulks().find('alice')) ?? {};
    assert.equal(matched, 230);
    await bulks().confirm('alice', id);
    await work(5);
    assert.deepEqual([(await bulks().find('alice'))?.done, (await dead()).length], [230, 5]);
  });

  test('goes on where it was when its worker died, and counts nothing twice', async () => {
    await deaths('alice', 'a', 250);
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: ['alice'] });
    await work(5);
    await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
    const { id = '' } = (await bulks().find(ROOT_OWNER)) ?? {};
    const step = { owner: ROOT_OWNER, id, listIndex: 0, token: 'alice', max: 100 };
    // Two workers make steps at the same time; the job itself stays where it is.
    await Promise.all([redis.store.run('retry_bulk', step), redis.store.run('retry_bulk', step)]);
    assert.equal((await bulks().find(ROOT_OWNER))?.done, 200);
    await work(1, AbortSignal.abort());
    assert.equal((await bulks().find(ROOT_OWNER))?.state, 'running');
    await work(5);
    const ended = await bulks().find(ROOT_OWNER);
    assert.deepEqual([ended?.state, ended?.done, await queued('alice')], ['ended', 250, 250]);
  });

  test('leaves letters whose subscriber has left, and says how many', async () => {
    await deaths('alice', 'a', 3);
    await redis.store.redis.hdel(redis.store.keys.subscriber('alice'), 'callback');
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined });
    await work(5);
    await bulks().confirm(ROOT_OWNER, (await bulks().find(ROOT_OWNER))?.id ?? '');
    await work(5);
    const ended = await bulks().find(ROOT_OWNER);
    assert.deepEqual([ended?.state, ended?.done, ended?.left], ['ended', 0, 3]);
    await redis.flush();
  });

  test('is one at a time, and only its own confirmation or cancellation counts', async () => {
    await deaths('alice', 'a', 3);
    await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined });
    await work(5);
    const first = (await bulks().find(ROOT_OWNER))?.id ?? '';
    assert.ok(await bulks().begin(ROOT_OWNER, 'purge', { tokens: undefined }));
    assert.equal(await bulks().confirm(ROOT_OWNER, first), false);
    await work(5);
    const second = (await bulks().find(ROOT_OWNER))?.id ?? '';
    assert.ok(await bulks().confirm(ROOT_OWNER, second));
    assert.equal(await bulks().begin(ROOT_OWNER, 'retry', { tokens: undefined }), false);
    assert.equal(await bulks().cancel(ROOT_OWNER, first), false);
    assert.ok(await bulks().cancel(ROOT_OWNER, second));
    await work(5);
    assert.deepEqual([(await bulks().find(ROOT_OWNER))?.state, (await dead()).length], ['cancelled', 3]);
    assert.equal(await bulks().cancel(ROOT_OWNER, second), false);
    assert.equal(await bulks().find('alice'), undefined);
  });

  test('that is stopped after it has ended in one of several partitions is cancelled', async () => {
    const { partitions, all, id, step } = await countedInTwo();
    assert.ok(await all.confirm(ROOT_OWNER, id));
    await partitions.control.run('purge_bulk', { ...step, deliveryLog: 0 });
    assert.equal((await all.find(ROOT_OWNER))?.state, 'running');
    assert.ok(await all.cancel(ROOT_OWNER, id));
    assert.equal((await all.find(ROOT_OWNER))?.state, 'cancelled');
    await redis.flush();
  });

  test('that is confirmed in one partition only is not replaced, and can be confirmed again', async () => {
    const { partitions, all, id } = await countedInTwo();
    await partitions.control.run('confirm_bulk', { owner: ROOT_OWNER, id, job: packJob('bulk', []) });
    assert.equal(await all.begin(ROOT_OWNER, 'retry', { tokens: undefined }), false);
    assert.equal((await all.find(ROOT_OWNER))?.id, id);
    assert.ok(await all.confirm(ROOT_OWNER, id));
    assert.equal((await all.find(ROOT_OWNER))?.state, 'running');
    await redis.flush();
  });

  test('that cannot begin in a partition that is away is cancelled in the others', async () => {
    const partitions = Partitions.on(redis.store.redis, { partitions: 3 });
    const [first, second, third] = partitions.all as [Partition, Partition, Partition];
    const away = { run: { value: () => Promise.reject(new StorageUnavailable(new Error('away'))) } };
    const some = new Bulks(new Partitions(first, Object.create(second, away), third));
    await assert.rejects(some.begin(ROOT_OWNER, 'purge', { tokens: undefined }), StorageUnavailable);
    const found = await new Bulks(partitions).find(ROOT_OWNER);
    assert.equal(found?.state, 'cancelled');
    assert.equal(await new Bulks(partitions).confirm(ROOT_OWNER, found?.id ?? ''), false);
    assert.ok(await new Bulks(partitions).begin(ROOT_OWNER, 'purge', { tokens: undefined }));
    assert.equal((await new Bulks(partitions).find(ROOT_OWNER))?.state, 'counting');
    await redis.flush();
  });

  test('of a client goes on while a partition that is not its own is away', async () => {
    const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
    const [first, second] = partitions.all as [Partition, Partition];
    const refuse = { value: () => Promise.reject(new StorageUnavailable(new Error('away'))) };
    const away = Object.create(second, { run: refuse, command: refuse });
    const own = new Bulks(new Partitions(first, away));
    const client = ['a', 'b', 'c', 'd'].find((token) => partitions.ofSubscriber(token) === first) ?? '';
    assert.ok(await own.begin(client, 'purge', { tokens: [client] }));
    const { id = '' } = (await own.find(client)) ?? {};
    const step = { owner: client, id, listIndex: 0, token: client, max: 100 };
    await first.run('count_bulk', step);
    assert.ok(await own.confirm(client, id));
    assert.ok(await own.cancel(client, id));
    assert.equal((await own.find(client))?.state, 'cancelled');
    await redis.flush();
  });

  test('that begins late in a partition that hung stays cancelled', async () => {
    const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
    const [first, second] = partitions.all as [Partition, Partition];
    // The partition gets the command, but answers too late. The connection to it is then closed.
    const run = async (...call: Parameters<Partition['run']>) => {
      if (call[0] === 'begin_bulk') await second.run(...call);
      throw new StorageUnavailable(new Error('no answer'));
    };
    const some = new Bulks(new Partitions(first, Object.create(second, { run: { value: run } })));
    await assert.rejects(some.begin(ROOT_OWNER, 'purge', { tokens: undefined }), StorageUnavailable);
    const all = new Bulks(partitions);
    const { id = '', state } = (await all.find(ROOT_OWNER)) ?? {};
    assert.equal(state, 'cancelled');
    await second.run('count_bulk', { owner: ROOT_OWNER, id, listIndex: 0, token: undefined, max: 100 });
    assert.equal((await all.find(ROOT_OWNER))?.state, 'cancelled');
    assert.equal(await all.confirm(ROOT_OWNER, id), false);
    await redis.flush();
  });

  test('is cancelled if another one began at the same moment, and each has only some of the partitions', async () => {
    const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
    const [first, second] = partitions.all as [Partition, Partition];
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const run = async (...call: Parameters<Partition['run']>) => {
      await released;
      return second.run(...call);
    };
    const slow = new Bulks(new Partitions(first, Object.create(second, { run: { value: run } })));
    const begun = slow.begin(ROOT_OWNER, 'purge', { tokens: undefined });
    await until(() => first.redis.exists(first.keys.bulk(ROOT_OWNER)));
    const all = new Bulks(partitions);
    assert.ok(await all.begin(ROOT_OWNER, 'retry', { tokens: undefined }));
    release();
    assert.ok(await begun);
    for (const partition of partitions.all) {
      const { id = '' } = await partition.redis.hgetall(partition.keys.bulk(ROOT_OWNER));
      const step = { owner: ROOT_OWNER, id, listIndex: 0, token: undefined, max: 100 };
      await partition.run('count_bulk', step);
      assert.equal((await all.find(ROOT_OWNER))?.state, 'cancelled');
      assert.equal(await all.confirm(ROOT_OWNER, id), false);
    }
    assert.ok(await all.begin(ROOT_OWNER, 'purge', { tokens: undefined }));
    assert.equal((await all.find(ROOT_OWNER))?.state, 'counting');
    await redis.flush();
  });

  test('cannot be confirmed any more if another one has begun in another partition', async () => {
    const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
    const all = new Bulks(partitions);
    const [second, first] = partitions.all.map((each) =>
      ['a', 'b', 'c', 'd', 'e', 'f'].find((token) => partitions.ofSubscriber(token) === each),
    );
    const ids: string[] = [];
    for (const token of [first ?? '', second ?? '']) {
      await all.begin(ROOT_OWNER, 'purge', { tokens: [token] });
      const partition = partitions.ofSubscriber(token);
      const { id = '' } = await partition.redis.hgetall(partition.keys.bulk(ROOT_OWNER));
      await partition.run('count_bulk', { owner: ROOT_OWNER, id, listIndex: 0, token, max: 100 });
      ids.push(id);
    }
    const [replaced = '', newest = ''] = ids;
    assert.equal(await all.confirm(ROOT_OWNER, replaced), false);
    assert.equal(await all.confirm(ROOT_OWNER, newest), true);
    await redis.flush();
  });
});
