import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { EMPTY_QUEUE } from '../../harness/scripts/state.ts';
import { until } from '../../harness/until.ts';
import { DONE, GIVEN_BACK, type Settlement } from '../../src/delivering/settlement.ts';
import { Workshop } from './workshop.ts';

const redis = new TestStore({ appendonly: 'yes', appendfsync: 'always' });
const bus = new Bus(() => redis.store);
let shop: Workshop;
let end: (settlement: Settlement) => void;

/** Makes two batches: a worker will deliver `a1` while `b1` is instant. */
beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { max: 1 });
  const outcome = new Promise<Settlement>((resolve) => {
    end = resolve;
  });
  shop = await Workshop.open(redis.store, () => outcome, { count: 1 });
  await bus.publish('a', 'widgets', ['e1']);
  await bus.publish('b', 'widgets', ['e2']);
  await until(() => shop.grants.length === 1);
});
afterEach(() => assertConsistent(redis.store));

const redisIsBack = () => until(() => redis.store.redis.ping());

describe('when Redis dies in mid-job', () => {
  test('its outcome is kept and reported when Redis is back, and the next job follows', async () => {
    await redis.redis.kill();
    end(DONE);
    await until(() => shop.recorded.says(/Redis did not take the outcome of a job; trying again/));
    await redis.redis.restart();
    await redisIsBack();
    await until(async () => (await bus.state()).main.index.length === 0);
    assert.deepEqual(
      shop.grants.map(({ batch }) => String(batch?.pieces[0])),
      ['e1', 'e2'],
      'no delivery was repeated',
    );
    assert.deepEqual(shop.removed, [
      ['alice', 1],
      ['alice', 1],
    ]);
    await shop.close();
  });

  test('a stop does not wait for Redis for ever: it logs an error, and a scrub gives the job back', async () => {
    await redis.redis.kill();
    end(DONE);
    await shop.close(10);
    assert.ok(shop.recorded.says(/stopped before Redis took the outcome; the job will run again/));
    await redis.redis.restart();
    await redisIsBack();
    await bus.scrub(-1);
    assert.deepEqual((await bus.state()).main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'b1'],
      instant: ['a1', 'b1'],
    });
  });

  test('idle workers keep trying, and find the jobs that come after', async () => {
    end(DONE);
    await until(async () => (await bus.state()).main.index.length === 0);
    await redis.redis.kill();
    shop.recorded.lines.length = 0;
    await redis.redis.restart();
    await redisIsBack();
    await bus.publish('c', 'widgets', ['e3']);
    await until(() => shop.grants.length === 3);
    await until(async () => (await bus.state()).main.index.length === 0);
    await shop.close();
  });
});

test('a job given back while Redis hangs is given back when it moves again', async () => {
  await redis.redis.kill('SIGSTOP');
  end(GIVEN_BACK);
  const stopped = shop.close(60_000);
  await redis.redis.kill('SIGCONT');
  await stopped;
  const { main } = await bus.state();
  assert.deepEqual(main, { ...EMPTY_QUEUE, index: ['a1', 'b1'], instant: ['a1', 'b1'] });
});
