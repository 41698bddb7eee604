import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { sumOf } from '../../src/sum.ts';
import { Listener } from './listener.ts';
import { AHEAD, PAST, triggerScene } from './trigger_scene.ts';

const { redis, bus, put, due, state, score } = triggerScene();

describe('a trigger that is put', () => {
  test('claims its topic as a publish does, and stands at its time', async () => {
    assert.equal(await put('daily', { nextAt: AHEAD }), 'created');
    assert.deepEqual(await redis.store.redis.smembers('topics'), ['widgets']);
    assert.equal(await redis.store.redis.hget('topic:widgets', 'publisher'), 'shop');
    assert.deepEqual(await state('daily'), { fired: '0', missed: '0', next_at: String(AHEAD) });
    assert.equal(await score('daily'), String(AHEAD));
  });

  test('stands at infinity while it is paused, keeps its time, and goes on from there', async () => {
    await put('daily', { nextAt: PAST, paused: true });
    assert.equal(await score('daily'), 'inf');
    assert.deepEqual(await due(), []);
    assert.equal(await put('daily'), 'changed');
    assert.equal(await score('daily'), String(PAST));
    assert.deepEqual(
      (await due()).map(({ name }) => name),
      ['daily'],
    );
  });

  test('is the client’s own: another client has another trigger of the same name', async () => {
    await put('daily', { nextAt: AHEAD });
    await put('daily', { client: 'mill', topic: 'gadgets', nextAt: PAST });
    assert.deepEqual([await score('daily'), await score('daily', 'mill')], [String(AHEAD), String(PAST)]);
    const remove = () => redis.store.run('remove_trigger', { client: 'mill', name: 'daily', isNoted: false });
    assert.deepEqual([await remove(), await remove()], [true, false]);
    assert.equal(await score('daily'), String(AHEAD));
  });

  test('wakes the scheduler if it is due before all others, and only then', async () => {
    const listener = await Listener.open(redis.store);
    const announced = (name: string, nextAt: number) =>
      listener.during(redis.store, () => put(name, { nextAt }));
    try {
      assert.deepEqual(await announced('a', AHEAD), ['wake:due']);
      assert.deepEqual(await announced('b', AHEAD + 1), []);
      assert.deepEqual(await announced('c', AHEAD - 1), ['wake:due']);
    } finally {
      listener.close();
    }
  });

  test('is not stored where another definition is than the caller has seen', async () => {
    await put('daily', { nextAt: AHEAD, revision: 'r1' });
    const before = await snapshot(redis.store);
    for (const seen of [undefined, 'r0', 'r11'])
      assert.equal(await put('daily', { before: seen }), 'conflict');
    assert.equal(await put('weekly', { before: 'r1' }), 'conflict');
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('is refused, and nothing is changed', async () => {
    await put('daily', { nextAt: AHEAD });
    await bus.publishAll('a', ['gadgets', 'mill', ['e1']]);
    await redis.store.redis.hset('api_tokens:by_token', 'limited', 'limited');
    await redis.store.redis.hset('api_token:limited', 'publish', 'orders_* returns');
    const before = await snapshot(redis.store);
    const refused = async (wanted: Parameters<typeof put>[1]) => put('weekly', { nextAt: AHEAD, ...wanted });
    assert.equal(await refused({ topic: 'gadgets' }), 'claimed_by_other');
    assert.equal(await refused({ topic: 'new', limits: { maxTopics: 2 } }), 'no_room');
    assert.equal(await refused({ topic: 'new', limits: { maxClientTopics: 1 } }), 'owns_too_many');
    assert.equal(await refused({ limits: { maxTriggers: 1 } }), 'too_many');
    assert.equal(await refused({ limits: { maxClientTriggers: 1 } }), 'too_many_of_client');
    assert.equal(await refused({ limits: { maxClientBytes: 300 } }), 'too_many_bytes');
    assert.equal(await refused({ client: 'nobody', limits: { isFixed: false } }), 'client_not_found');
    const limited = { client: 'limited', limits: { isFixed: false } };
    for (const topic of ['new', 'order', 'returns_2'])
      assert.equal(await refused({ ...limited, topic }), 'not_permitted');
    assert.deepEqual(await snapshot(redis.store), before);
    assert.equal(await refused({ ...limited, topic: 'orders_7' }), 'created');
    assert.equal(await put('weekly', { ...limited, topic: 'returns' }), 'changed');
  });

  test('may always be replaced by one that is not longer', async () => {
    await put('daily', { nextAt: AHEAD, data: '"long"' });
    const limits = { maxTriggers: 1, maxClientTriggers: 1, maxClientBytes: 10 };
    assert.equal(await put('daily', { data: '""', revision: 'r', limits }), 'changed');
    assert.equal(await put('daily', { data: '"longer than before"', limits }), 'too_many_bytes');
  });

  test('adds up the definitions of its client only if their memory could be too much', async () => {
    const { redis: commands, keys } = redis.store;
    for (let n = 0; n < 200; n++) await put(`trigger_${n}`);
    const lengths = Object.values(await commands.hgetall(keys.triggers_of('shop'))).map((text) =>
      Buffer.byteLength(text),
    );
    const bytes = sumOf(lengths);
    await commands.config('RESETSTAT');
    assert.equal(await put('more', { limits: { maxClientBytes: 2 * bytes } }), 'created');
    assert.doesNotMatch(await commands.info('commandstats'), /cmdstat_hstrlen:/);
    const [more = 0] = lengths;
    assert.equal(await put('last', { limits: { maxClientBytes: bytes + more } }), 'too_many_bytes');
    assert.equal(await put('last', { limits: { maxClientBytes: bytes + 3 * more } }), 'created');
    assert.match(await commands.info('commandstats'), /cmdstat_hstrlen:/);
  });
});
describe('a client', () => {
  const register = (publish?: string) =>
    redis.store.run('register_client', {
      ...{ token: 'shop', name: 'shop', keepsName: false },
      scopes: publish === undefined ? [] : [{ of: 'publish', patterns: publish }],
    });

  test('that is removed has no triggers any more', async () => {
    await register();
    for (const name of ['a', 'b']) await put(name, { nextAt: PAST });
    await put('a', { client: 'mill', topic: 'gadgets', nextAt: PAST });
    assert.equal(await redis.store.run('remove_client', { token: 'shop' }), true);
    assert.equal(await redis.store.run('remove_client', { token: 'shop' }), false);
    assert.deepEqual(await redis.store.redis.zrange('triggers:due', '0', '-1'), ['a mill']);
    assert.deepEqual(await redis.store.redis.hgetall('api_tokens:by_token'), {});
    assert.deepEqual(
      await redis.store.redis.keys('*shop*'),
      ['topics:owned:shop'],
      'its topics stay its own',
    );
  });

  test('whose scopes are narrowed has those triggers paused whose topics they do not permit', async () => {
    await register();
    await put('orders', { topic: 'orders_1', nextAt: PAST });
    await put('returns', { topic: 'returns', nextAt: PAST });
    await register('orders_*');
    assert.deepEqual(
      (await due()).map(({ name }) => name),
      ['orders'],
    );
    const { error_at, ...rest } = await state('returns');
    assert.deepEqual(rest, {
      fired: '0',
      missed: '0',
      next_at: String(PAST),
      paused: '1',
      error: 'forbidden',
    });
    assert.ok(error_at);
    await register();
    assert.equal(await score('returns'), 'inf', 'it goes on when it is put again');
    await put('returns', { topic: 'returns' });
    assert.equal(await score('returns'), String(PAST));
  });
});
