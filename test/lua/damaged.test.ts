import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const WORKERS = ['w1', 'w2', 'w3'];

/** Damages the data of the subscriber, so that it cannot be read. */
async function damage(token: string): Promise<void> {
  await bus.store.redis.del(`subscriber:${token}`);
  await bus.store.redis.set(`subscriber:${token}`, 'not a hash');
}

const acquire = async () => (await bus.acquire(WORKERS)).grants.map(({ job }) => job);

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { max: 1, topics: ['a'], ordered: 1 });
  await bus.subscribe('bob', { max: 1, topics: ['b'] });
  await bus.publish('b', 'b', ['e1']);
  await bus.publish('a', 'a', ['e1', 'e2', 'e3']);
});

describe('a subscriber that cannot be read', () => {
  test('holds up nobody: its job is left to the sweep, and who asks again has what the others got', async () => {
    await damage('bob');
    await assert.rejects(acquire(), /WRONGTYPE/);
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.pending, main.pendingIndex], [{ w2: ['a1'] }, ['w2']]);
    assert.deepEqual([lanes.held, lanes.inFlight], [{ w2: 'alice' }, { alice: 1 }]);
    for (const expected of ['a1', 'a2', 'a3']) {
      const [{ worker, job } = assert.fail()] = (await bus.acquire(WORKERS)).grants;
      assert.equal(job, expected);
      assert.equal((await bus.ack(worker, job)).held, true);
    }
  });

  test('is nothing to those whose batches are acknowledged by the same call', async () => {
    const { grants } = await bus.acquire(WORKERS);
    const finished = grants.map(({ worker, job }) => ({ worker, job }));
    assert.deepEqual(
      finished.map(({ job }) => job),
      ['b1', 'a1'],
    );
    await damage('bob');
    await assert.rejects(bus.acquire([], { finished }), /WRONGTYPE/);
    for (const { worker, job } of finished) assert.equal((await bus.ack(worker, job)).held, false, 'it was');
    assert.deepEqual((await bus.state()).lanes.inFlight, {});
    assert.deepEqual(await acquire(), ['a2'], 'the lane goes on');
  });
});

test('a subscriber that cannot be read is left out of a listing', async () => {
  await damage('bob');
  const rows: string = await bus.store.run('read_subscribers', { tokens: ['bob', 'alice'] });
  assert.deepEqual(
    JSON.parse(rows).map(({ token }: { token: string }) => token),
    ['alice'],
  );
});

test('the numbers of events in dead letters hide no subscriber if they cannot be read', async () => {
  await buryAll(bus.store);
  await bus.store.redis.del(bus.store.keys.dead_letters_events());
  await bus.store.redis.set(bus.store.keys.dead_letters_events(), 'not a hash');
  const { subscribers } = await bus.store.run('census', { place: '0' });
  assert.deepEqual(subscribers.map(({ token, deadLetters }) => `${token} ${deadLetters}`).toSorted(), [
    'alice 3',
    'bob 1',
  ]);
});

test('a batch is cut although the set of batches to be tried again cannot be read', async () => {
  await bus.subscribe('carol', { max: 3, topics: ['c'] });
  await bus.publish('c', 'c', ['e1', 'e2', 'e3']);
  await bus.subscribe('carol', { max: 2, topics: ['c'] });
  await bus.store.redis.set(bus.store.keys.batches_retrying('carol'), 'not a sorted set');
  const { grants } = await bus.acquire(WORKERS, { seed: 'cut' });
  const parts = grants.map(({ batch }) => batch?.slice(3));
  assert.deepEqual(parts, [['e1'], ['e1'], ['e1', 'e2']]);
});

test('a drop notice that cannot be read holds up only the batch that would carry it', async () => {
  await bus.store.redis.set(bus.store.keys.drop_notice_carried('bob'), 'not a hash');
  await bus.store.redis.hdel(bus.store.keys.subscriber('bob'), 'sent');
  await assert.rejects(acquire(), /WRONGTYPE/);
  const { main, lanes } = await bus.state();
  assert.deepEqual(
    [main.pending, lanes.held, lanes.inFlight, lanes.shares.slow],
    [{ w2: ['a1'] }, { w2: 'alice' }, { alice: 1 }, []],
  );
  assert.deepEqual(await acquire(), ['a1']);
  await bus.store.redis.del(bus.store.keys.drop_notice_carried('bob'));
  await sweep(bus.store);
  assert.deepEqual(await acquire(), ['b1', 'a1']);
});

test('an accepted batch is not to be tried again, whatever of its subscriber cannot be read', async () => {
  const { redis: commands, keys } = bus.store;
  assert.deepEqual(await acquire(), ['b1', 'a1']);
  await bus.nack('w1', 'b1', { attempt: '{}' });
  assert.deepEqual(await acquire(), ['b1', 'a1']);
  const retried = () => commands.zcard(keys.batches_retrying('bob'));
  assert.equal(await retried(), 1);
  await commands.set(keys.drop_notice_carried('bob'), 'not a hash');
  await assert.rejects(bus.ack('w1', 'b1'), /WRONGTYPE/);
  assert.equal(await retried(), 0);
});

test('a job that cannot be given again is left to the sweep', async () => {
  assert.deepEqual(await acquire(), ['b1', 'a1']);
  await bus.store.redis.set(bus.store.keys.drop_notice_carried('bob'), 'not a hash');
  await assert.rejects(acquire(), /WRONGTYPE/);
  assert.deepEqual(await acquire(), ['a1']);
  assert.deepEqual((await bus.state()).lanes.inFlight, { alice: 1 });
});

test('a lease that cannot be read holds up nobody', async () => {
  await bus.store.redis.hset(bus.store.keys.leases(), 'w9', 'no number');
  assert.deepEqual(await acquire(), ['b1', 'a1']);
});

test('a dead worker whose job cannot be read keeps no other from giving its job back', async () => {
  await acquire();
  const { redis: commands, keys } = bus.store;
  for (let i = 0; i < 20; i++) {
    await commands.set(keys.jobs_pending('main', `bad${i}`), 'not a list');
    await commands.sadd(keys.jobs_pending_index('main'), `bad${i}`);
  }
  await commands.del(keys.workers());
  await assert.rejects(bus.scrub(0), /WRONGTYPE/);
  const { main, lanes } = await bus.state();
  assert.deepEqual(main.instant.toSorted(), ['a1', 'b1']);
  assert.deepEqual(lanes.held, {});
});
