import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { seedOf } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('an idempotency key', () => {
  const key = (name: string, fingerprint = 'as it was') => ({ digest: name.padEnd(22, '-'), fingerprint });

  test('is known when what came under it was accepted: the same again changes nothing', async () => {
    await bus.subscribe('alice');
    await bus.publishAll('a', ['widgets', 'shop', ['e1', 'e2'], key('k')]);
    const before = await snapshot(bus.store);
    const again = await bus.publishAll('b', ['widgets', 'shop', ['e1', 'later'], key('k')]);
    assert.deepEqual(again, { accepted: ['repeated'], added: {} });
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
      assert.deepEqual(other, { accepted: ['key_reused'], added: {} });
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
    assert.deepEqual(accepted, [1, 1, 'repeated', 'key_reused', 1, 1]);
    assert.deepEqual(added, { alice: 4 });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e4', 'e5']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '4');
  });

  test('of what was refused is free', async () => {
    await bus.publish('a', 'widgets', ['e1']);
    const refused = await bus.publishAll('b', ['widgets', 'mill', ['e2'], key('k')]);
    assert.deepEqual(refused.accepted, ['claimed_by_other']);
    const other = await bus.publishAll('c', ['gadgets', 'mill', ['e3'], key('k', 'not as it was')]);
    assert.deepEqual(other.accepted, [0]);
  });

  test('answers as at first when the topic has become another client’s', async () => {
    await bus.publishAll('a', ['widgets', 'shop', ['e1'], key('k')]);
    await bus.store.run('remove_topic', { topic: 'widgets', series: [] });
    await bus.publishAll('b', ['widgets', 'mill', ['e2']]);
    const again = await bus.publishAll('c', ['widgets', 'shop', ['e1'], key('k')]);
    assert.deepEqual(again, { accepted: ['repeated'], added: {} });
    assert.deepEqual(await bus.store.redis.hgetall('topic:widgets'), { publisher: 'mill', counter: '1' });
  });

  test('is forgotten after the window, which a repeat does not prolong', async () => {
    await bus.subscribe('alice');
    const { digest, fingerprint } = key('k');
    const publish = async (windowMs: number) => {
      const { outcomes } = await bus.store.run('publish', {
        uidSeed: seedOf('a'),
        ...PUBLISH_LIMITS,
        idempotencyWindowMs: windowMs,
        publications: [{ topic: 'widgets', client: 'shop', digest, fingerprint, events: ['e'] }],
      });
      return outcomes[0];
    };
    const leftMs = () => bus.store.redis.pttl(`idempotency:${digest}`);
    assert.equal(await publish(600_000), 'accepted');
    const firstMs = await leftMs();
    assert.ok(firstMs > 590_000 && firstMs <= 600_000, `${firstMs}`);
    assert.equal(await publish(900_000), 'repeated');
    assert.ok((await leftMs()) <= firstMs);
    await bus.store.redis.pexpire(`idempotency:${digest}`, 1);
    await until(async () => (await leftMs()) === -2);
    assert.equal(await publish(600_000), 'accepted');
  });

  test('is not written where the call fails half-way: it can be repeated', async () => {
    await bus.subscribe('alice');
    await bus.store.redis.set('batches:current:alice', 'no set');
    await assert.rejects(bus.publishAll('a', ['widgets', 'shop', ['e1'], key('k')]), /WRONGTYPE/);
    await bus.store.redis.del('batches:current:alice');
    assert.deepEqual((await bus.publishAll('b', ['widgets', 'shop', ['e1'], key('k')])).accepted, [1]);
  });

  describe('can be used up by a client', () => {
    const limits = { ...PUBLISH_LIMITS, idempotencyWindowMs: 3000, maxClientKeys: 3 };
    const outcomesOf = async (...keys: [client: string, name: string][]) => {
      const { outcomes } = await bus.store.run('publish', {
        uidSeed: seedOf('a'),
        ...limits,
        publications: keys.map(([client, name]) => ({
          topic: `of_${client}`,
          client,
          ...key(name),
          events: ['e'],
        })),
      });
      return outcomes;
    };

    test('which then may use more as time passes; what has no key, or is known, is accepted', async () => {
      const ways = await outcomesOf(
        ['shop', '1'],
        ['shop', '2'],
        ['mill', '1b'],
        ['shop', '3'],
        ['shop', '4'],
      );
      assert.deepEqual(ways, ['accepted', 'accepted', 'accepted', 'accepted', 'too_many_keys']);
      assert.deepEqual(await outcomesOf(['shop', '5'], ['shop', '1'], ['mill', '2b']), [
        'too_many_keys',
        'repeated',
        'accepted',
      ]);
      const { accepted } = await bus.publishAll('b', ['of_shop', 'shop', ['e']]);
      assert.deepEqual(accepted, [0]);
      await until(async () => (await outcomesOf(['shop', '6']))[0] === 'accepted');
      assert.deepEqual(await outcomesOf(['shop', '7']), ['too_many_keys']);
    });

    test('who claims no topic by what is refused', async () => {
      await outcomesOf(['shop', '1'], ['shop', '2'], ['shop', '3']);
      await bus.store.run('remove_topic', { topic: 'of_shop', series: [] });
      assert.deepEqual(await outcomesOf(['shop', '4']), ['too_many_keys']);
      assert.equal(await bus.store.redis.sismember('topics', 'of_shop'), 0);
    });

    test('and leaves nothing in Redis once all may be used again', async () => {
      await outcomesOf(['shop', '1'], ['shop', '2']);
      const { redis: raw, keys } = bus.store;
      const leftMs = await raw.pttl(keys.idempotency_quota('shop'));
      assert.ok(leftMs > 1000 && leftMs <= 2000, `${leftMs} ms`);
    });
  });
});
