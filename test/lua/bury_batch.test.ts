import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Wanted } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const MINUTE_MS = 60_000;

const acquire = async (...workers: string[]) => (await bus.acquire(workers)).grants.map(({ job }) => job);
const fail = (worker: string, job: string, throttleMs = 0) =>
  bus.nack(worker, job, { delayMs: MINUTE_MS, damage: 2, throttleMs, attempt: '{}' });
const buried = (events: number) => ({ outcome: 'ok', token: 'alice', events });
const refused = (outcome: string) => ({ outcome, token: undefined, events: 0 });

async function publish(wanted: Wanted = {}): Promise<void> {
  await bus.subscribe('alice', { max: 1, ...wanted });
  await bus.publish('a', 'widgets', ['1', '2', '3']);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('bury_batch', () => {
  test('makes the batch for which an ordered subscriber waits a dead letter, and the next one goes on', async () => {
    await publish({ ordered: 1 });
    assert.deepEqual(await acquire('w1', 'w2'), ['a1']);
    await fail('w1', 'a1');
    assert.deepEqual(await acquire('w1', 'w2'), []);
    assert.deepEqual(await bus.buryBatch('a1'), buried(1));
    assert.deepEqual(await acquire('w1', 'w2'), ['a2']);
    const { keys, redis: raw } = redis.store;
    const [bid = ''] = await raw.zrange(keys.dead_letters_of('alice'), '0', '-1');
    assert.equal(await raw.hget(keys.dead_letter_about(bid), 'reason'), 'buried');
  });

  for (const ordered of [0, 1] as const)
    test(`has the next batch tried at once, though the subscriber is held back (ordered: ${ordered})`, async () => {
      await publish({ ordered });
      await acquire('w1');
      await fail('w1', 'a1', MINUTE_MS);
      assert.deepEqual(await acquire('w1', 'w2'), []);
      assert.deepEqual(await bus.buryBatch(ordered ? 'a1' : 'a2'), buried(1));
      assert.deepEqual(await acquire('w1', 'w2'), [ordered ? 'a2' : 'a3']);
    });

  test('leaves the probe of the subscriber the one that is tried next', async () => {
    await publish();
    await acquire('w1');
    await fail('w1', 'a1', MINUTE_MS);
    assert.deepEqual(await acquire('w1', 'w2'), [], 'a2 is the probe now');
    assert.deepEqual(await bus.buryBatch('a3'), buried(1));
    assert.deepEqual(await acquire('w1', 'w2'), []);
    assert.equal(await bus.retryBatch('a2'), 'ok');
    assert.deepEqual(await acquire('w1', 'w2'), ['a2']);
  });

  test('takes an open batch, and a batch of a paused subscriber', async () => {
    await bus.subscribe('alice', { max: 2, timeout: MINUTE_MS });
    await bus.publish('a', 'widgets', ['1']);
    assert.deepEqual(await bus.buryBatch('a1'), buried(1));
    await bus.publish('b', 'widgets', ['2']);
    await bus.pause('alice');
    assert.deepEqual(await bus.buryBatch('b1'), buried(1));
    assert.deepEqual(await acquire('w1'), []);
  });

  test('changes nothing for a batch in flight or due, of another subscriber, or that is not there', async () => {
    await publish();
    const refuses = async (outcome: string, name: string, tokens?: string[]) => {
      const before = await snapshot(redis.store);
      assert.deepEqual(await bus.buryBatch(name, tokens), refused(outcome));
      assert.deepEqual(await snapshot(redis.store), before);
    };
    await refuses('delivery_not_found', 'b1');
    await refuses('delivery_not_found', 'a1', ['bob']);
    await refuses('delivery_not_waiting', 'a1');
    await acquire('w1');
    await refuses('delivery_not_waiting', 'a1');
    await fail('w1', 'a1');
    assert.deepEqual(await bus.buryBatch('a1', ['alice']), buried(1));
    await refuses('delivery_not_found', 'a1');
  });
});
