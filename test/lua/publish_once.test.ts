import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Bus } from '../../harness/bus.ts';
import { assertConsistent, snapshot } from '../../harness/invariants.ts';
import { seedOf } from '../../harness/names.ts';
import { TestStore } from '../../harness/store.ts';
import { until } from '../../harness/until.ts';
import { NONCE_USES_KEPT_MS } from '../../src/authentication/nonce_uses.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('a count of a nonce', () => {
  const nonce = 'n'.repeat(19);
  const count = (n: number) => ({ nonce, count: n });

  test('that was taken, or is too high, has nothing stored; what stands beside it in the call is', async () => {
    await bus.subscribe('alice');
    const { accepted, added, repeated } = await bus.publishAll(
      'a',
      ['widgets', 'shop', ['e1'], undefined, count(1)],
      ['widgets', 'shop', ['e2', 'e3'], undefined, count(2)],
      ['widgets', 'shop', ['e4'], undefined, count(1)],
      ['gadgets', 'shop', ['e5'], undefined, count(2)],
      ['widgets', 'shop', ['e6'], undefined, count(65_536)],
      ['widgets', 'shop', ['e7']],
    );
    assert.deepEqual(accepted, [1, 1, -5, -5, -5, 1]);
    assert.deepEqual(repeated, [3, 4, 5]);
    assert.deepEqual(added, { alice: 4 });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e3', 'e7']);
    assert.deepEqual(await bus.store.redis.smembers('topics'), ['widgets'], 'no topic is claimed by it');
  });

  test('may be each of an event: those of new counts are stored', async () => {
    await bus.subscribe('alice');
    const some = await bus.publishAll(
      'a',
      ['widgets', 'shop', ['e1'], undefined, count(1)],
      ['widgets', 'shop', ['e2', 'e3', 'e4', 'e5'], undefined, count(2), count(1), count(3), count(2)],
    );
    assert.deepEqual(some, { accepted: [1, 1], added: { alice: 3 }, repeated: [3, 5] });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e4']);
    const none = await bus.publishAll('b', ['gadgets', 'shop', ['e6', 'e7'], undefined, count(1), count(2)]);
    assert.deepEqual(none, { accepted: [-5], added: {}, repeated: [1, 2] });
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '3');
  });

  test('is taken whatever becomes of the publication', async () => {
    await bus.publishAll('a', ['widgets', 'mill', ['e1']]);
    const publish = () => bus.publishAll('b', ['widgets', 'shop', ['e2'], undefined, count(1)]);
    assert.deepEqual((await publish()).accepted, [-1]);
    assert.deepEqual((await publish()).accepted, [-5]);
    const leftMs = await bus.store.redis.pttl(`digest:counts:${nonce}`);
    assert.ok(leftMs > NONCE_USES_KEPT_MS - 10_000 && leftMs <= NONCE_USES_KEPT_MS, `${leftMs}`);
  });
});

describe('an idempotency key', () => {
  const key = (name: string, fingerprint = 'as it was') => ({ digest: name.padEnd(22, '-'), fingerprint });

  test('is known when what came under it was accepted: the same again changes nothing', async () => {
    await bus.subscribe('alice');
    await bus.publishAll('a', ['widgets', 'shop', ['e1', 'e2'], key('k')]);
    const before = await snapshot(bus.store);
    const again = await bus.publishAll('b', ['widgets', 'shop', ['e1', 'later'], key('k')]);
    assert.deepEqual(again, { accepted: [-2], added: {}, repeated: [] });
    assert.deepEqual(await snapshot(bus.store), before);
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '2');
  });

  test('refuses anything else, and claims no topic for it', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.publishAll('a', ['widgets', 'shop', ['e1'], key('k')]);
    const before = await snapshot(bus.store);
    for (const topic of ['widgets', 'gadgets', 'new']) {
      const other = await bus.publishAll('b', [topic, 'shop', ['e2'], key('k', 'not as it was')]);
      assert.deepEqual(other, { accepted: [-3], added: {}, repeated: [] });
    }
    assert.deepEqual(await snapshot(bus.store), before);
  });

  test('works within one call, between publications without one', async () => {
    await bus.subscribe('alice');
    const { accepted, added } = await bus.publishAll(
      'a',
      ['widgets', 'shop', ['e1']],
      ['widgets', 'shop', ['e2'], key('k')],
      ['widgets', 'shop', ['e2'], key('k')],
      ['widgets', 'shop', ['e3'], key('k', 'not as it was')],
      ['widgets', 'shop', ['e4'], key('l')],
      ['widgets', 'shop', ['e5']],
    );
    assert.deepEqual(accepted, [1, 1, -2, -3, 1, 1]);
    assert.deepEqual(added, { alice: 4 });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e4', 'e5']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '4');
  });

  test('of what was refused is free', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    const refused = await bus.publishAll('b', ['widgets', 'mill', ['e2'], key('k')]);
    assert.deepEqual(refused.accepted, [-1]);
    const other = await bus.publishAll('c', ['gadgets', 'mill', ['e3'], key('k', 'not as it was')]);
    assert.deepEqual(other.accepted, [0]);
  });

  test('answers as at first when the topic has become another client’s', async () => {
    await bus.publishAll('a', ['widgets', 'shop', ['e1'], key('k')]);
    await bus.store.run('remove_topic', 'widgets', '');
    await bus.publishAll('b', ['widgets', 'mill', ['e2']]);
    const again = await bus.publishAll('c', ['widgets', 'shop', ['e1'], key('k')]);
    assert.deepEqual(again, { accepted: [-2], added: {}, repeated: [] });
    assert.deepEqual(await bus.store.redis.hgetall('topic:widgets'), { publisher: 'mill', counter: '1' });
  });

  test('is forgotten after the window, which a repeat does not prolong', async () => {
    await bus.subscribe('alice');
    const { digest, fingerprint } = key('k');
    const publish = async (windowMs: number) => {
      const publication = ['widgets', 'shop', digest, fingerprint, 0, 1, 'e'];
      const [outcomes] = (await bus.store.run(
        'publish',
        seedOf('a'),
        windowMs,
        10_000,
        1,
        ...publication,
      )) as [number[]];
      return outcomes[0];
    };
    const leftMs = () => bus.store.redis.pttl(`idempotency:${digest}`);
    assert.equal(await publish(600_000), 1);
    const firstMs = await leftMs();
    assert.ok(firstMs > 590_000 && firstMs <= 600_000, `${firstMs}`);
    assert.equal(await publish(900_000), -2);
    assert.ok((await leftMs()) <= firstMs);
    await bus.store.redis.pexpire(`idempotency:${digest}`, 1);
    await until(async () => (await leftMs()) === -2);
    assert.equal(await publish(600_000), 1);
  });

  test('is not written where the call fails half-way: it can be repeated', async () => {
    await bus.subscribe('alice');
    await bus.store.redis.set('batches:current:alice', 'no set');
    await assert.rejects(bus.publishAll('a', ['widgets', 'shop', ['e1'], key('k')]), /WRONGTYPE/);
    await bus.store.redis.del('batches:current:alice');
    assert.deepEqual((await bus.publishAll('b', ['widgets', 'shop', ['e1'], key('k')])).accepted, [1]);
  });
});
