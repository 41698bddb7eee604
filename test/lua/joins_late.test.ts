import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { beginBus } from '../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { JoinCalls, joinEvent } from '../../harness/scripts/join_calls.ts';
import { seedOf } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);
const WITHIN_MS = 100;

/** Applies work of another partition, which that partition stored at this time. */
const apply = (atMs: number, ...work: readonly unknown[][]) =>
  redis.store.run('apply_outbox', {
    ...{ uidSeed: seedOf('late'), ...PUBLISH_LIMITS },
    sources: [
      {
        source: '1',
        entries: work.map((each, index) => {
          const head = `${String(atMs * 1000 + index).padStart(16, '0')}0:`;
          return Buffer.concat([Buffer.from(head), encode(each)]);
        }),
      },
    ],
  });

/** Applies an event of another partition's topic, which that partition accepted at this time. */
const applyLate = (topic: string, key: string, acceptedMs: number) =>
  apply(acceptedMs, ['events', topic, [joinEvent(topic, key)]]);

/** Opens the key x, and lets its time pass. Returns a time at which it was still open. */
async function openKey(): Promise<number> {
  await bus.publishAll('a', ['paid', 'pub', [joinEvent('paid', 'x')]]);
  await joins.work('order');
  const openMs = await bus.nowMs();
  await until(async () => (await bus.nowMs()) > openMs + WITHIN_MS);
  return openMs;
}

const ready = async () =>
  Object.values((await bus.state()).batches).filter(({ token }) => token === 'office');

beforeEach(async () => {
  await redis.flush();
  await beginBus(new Partitions(redis.store));
  await bus.subscribe('office', { topics: ['ready'], timeout: 600_000 });
  await joins.put('order', {
    sources: [
      { topic: 'paid', count: 1 },
      { topic: 'packed', count: 1 },
    ],
    within: WITHIN_MS,
  });
});

describe('an event that was accepted in time, and reaches its join late', () => {
  test('keeps its key open while an event that was accepted later stands before it in the queue', async () => {
    const openMs = await openKey();
    await bus.publishAll('b', ['paid', 'pub', [joinEvent('paid', 'y')]]);
    const { grants } = await bus.acquire(['w1']);
    await applyLate('packed', 'x', openMs);
    assert.equal((await joins.expire('order', { movedUntilMs: await bus.nowMs() })).expired, 0);
    await joins.count('order', 'w1', grants[0]?.job ?? '');
    await joins.work('order');
    assert.equal((await ready()).length, 1);
    await assertConsistent(redis.store);
  });

  test('counts as in time although the queue has an open batch of a later event', async () => {
    const openMs = await openKey();
    await bus.publishAll('b', ['paid', 'pub', [joinEvent('paid', 'y')]]);
    await applyLate('packed', 'x', openMs);
    while ((await bus.acquire([])).readyJobs > 0) await joins.work('order');
    assert.equal((await ready()).length, 1);
    await assertConsistent(redis.store);
  });
});

test('apply_outbox reports events and bytes of topics, and whether they live elsewhere', async () => {
  const [one, two] = [['e1', 'e22'], ['e333']];
  const reply = await apply(
    await bus.nowMs(),
    ['publish', 'ready', ['shop', 'join', one]],
    ['events', 'paid', [joinEvent('paid', 'x')]],
    ['publish', 'ready', ['shop', 'join', two]],
  );
  const [ready, paid] = reply.published;
  assert.deepEqual(ready, { topic: 'ready', events: 3, bytes: 9, subscribers: 'office', isForeign: false });
  assert.deepEqual([paid?.topic, paid?.events, paid?.isForeign], ['paid', 1, true]);
});
