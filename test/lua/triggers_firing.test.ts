import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { EVERY_SECOND, fireTriggers } from '../../harness/scripts/triggers.ts';
import { StorageForbidden } from '../../src/errors.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { AHEAD, PAST, triggerScene } from './trigger_scene.ts';

const { redis, bus, put, due, state, score, firingOf, fire } = triggerScene();

describe('a trigger that fires', () => {
  test('publishes an event with its name and due time, and the next time is stored', async () => {
    await bus.subscribe('alice');
    await put('daily', { nextAt: PAST, data: '{"n":1}' });
    const firing = await firingOf('daily', { missed: 2 });
    const { outcomes, published } = await fireTriggers(redis.store, 'a', [firing]);
    assert.deepEqual(outcomes, [{ outcome: 'handled', fired: 1 }]);
    const event = `{"id":"daily@${PAST}","topic":"widgets","type":"noop","url":"https://shop.example.com/","t":${PAST},"data":{"n":1}}`;
    assert.deepEqual((await bus.state()).batches.a1?.events, [event]);
    assert.deepEqual(published, [{ topic: 'widgets', events: 1, bytes: event.length, subscribers: 'alice' }]);
    assert.deepEqual(await state('daily'), {
      ...{ fired: '1', missed: '2' },
      ...{ last_at: String(PAST), next_at: String(AHEAD) },
    });
    assert.equal(await redis.store.redis.hget('topic:widgets', 'counter'), '1');
  });

  test('does so once for each due time, however often it is fired', async () => {
    await bus.subscribe('alice');
    await put('daily', { nextAt: PAST });
    const firing = await firingOf('daily');
    assert.deepEqual(await fire('a', firing), [1]);
    const before = await snapshot(redis.store);
    assert.deepEqual(await fire('b', firing), ['changed']);
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('does not, if it was replaced, paused or deleted since it was read', async () => {
    await bus.subscribe('alice');
    for (const name of ['replaced', 'paused', 'deleted', 'kept']) await put(name, { nextAt: PAST });
    const firings = await Promise.all(
      ['replaced', 'paused', 'deleted', 'kept'].map((name) => firingOf(name)),
    );
    await put('replaced', { data: '2' });
    await put('paused', { paused: true, revision: firings[1]?.revision ?? '' });
    await redis.store.run('remove_trigger', { client: 'shop', name: 'deleted', isNoted: false });
    assert.deepEqual(await fire('a', ...firings), ['changed', 'changed', 'changed', 1]);
    assert.equal((await bus.state()).batches.a1?.events.length, 1);
  });

  test('fires several times in their order, and triggers in the order of the call', async () => {
    await bus.subscribe('alice');
    await put('a', { nextAt: PAST });
    await put('b', { nextAt: PAST + 500 });
    const [a, b] = await Promise.all([firingOf('a', { times: [PAST, PAST + 1000] }), firingOf('b')]);
    assert.deepEqual(await fire('a', a, b), [2, 1]);
    const ids = (await bus.state()).batches.a1?.events.map((event) => JSON.parse(event).id);
    assert.deepEqual(ids, [`a@${PAST}`, `a@${PAST + 1000}`, `b@${PAST + 500}`]);
  });

  for (const name of ['topic', 'topic_subscribers'] as const)
    test(`does not wait for one whose topic has a key ${name} that another program has written`, async () => {
      await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
      await put('bad', { topic: 'widgets', nextAt: PAST });
      await put('good', { topic: 'gadgets', nextAt: PAST });
      const { redis: commands, keys } = redis.store;
      const key = keys[name]('widgets');
      await commands.rename(key, 'kept');
      await commands.set(key, 'x');
      await assert.rejects(due(), /WRONGTYPE/);
      assert.deepEqual(await fire('a', await firingOf('good')), [1]);
      await commands.rename('kept', key);
      await sweep(redis.store);
      assert.deepEqual(await fire('b', await firingOf('bad')), [1]);
    });

  for (const command of ['hmget', 'scard'])
    test(`stays due if the ACL of Redis forbids ${command}`, async () => {
      await put('daily', { nextAt: PAST });
      const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
      const firing = await firingOf('daily');
      await permit(`-${command}`);
      await assert.rejects(due(), StorageForbidden);
      await assert.rejects(fire('a', firing), StorageForbidden);
      await permit(`+${command}`);
      assert.deepEqual(await fire('b', await firingOf('daily')), [1]);
    });

  test('does not wait for one whose client has a rate that another program has written', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await put('bad', { topic: 'widgets', nextAt: PAST, client: 'mill' });
    await put('good', { topic: 'gadgets', nextAt: PAST });
    const firings = [await firingOf('bad'), await firingOf('good')];
    await redis.store.redis.set(redis.store.keys.rate('mill'), 'x');
    const limits = { eventsPerSecond: 10, bytesPerSecond: 10_000 };
    await assert.rejects(fireTriggers(redis.store, 'a', firings, limits), /WRONGTYPE/);
    assert.equal((await state('good')).fired, '1');
    assert.deepEqual(await due(), []);
    assert.deepEqual(await state('bad', 'mill'), { fired: '0', missed: '0', next_at: String(PAST) });
    await redis.store.redis.del(redis.store.keys.rate('mill'));
    await sweep(redis.store);
    await fireTriggers(redis.store, 'b', [await firingOf('bad')], limits);
    assert.equal((await state('bad', 'mill')).fired, '1');
    const { batches } = await bus.state();
    assert.equal(Object.values(batches).flatMap(({ events }) => events).length, 2);
  });

  test('without a next time stays, and fires no more', async () => {
    await put('once', { nextAt: PAST });
    assert.deepEqual(await fire('a', await firingOf('once', { nextAt: undefined })), [1]);
    assert.equal(await score('once'), 'inf');
    assert.deepEqual(await state('once'), { fired: '1', missed: '0', last_at: String(PAST) });
  });

  test('may fire nothing, where due times are missed', async () => {
    await put('daily', { nextAt: PAST });
    assert.deepEqual(await fire('a', await firingOf('daily', { times: [], missed: 9 })), [0]);
    assert.deepEqual(await state('daily'), { fired: '0', missed: '9', next_at: String(AHEAD) });
  });

  test('that cannot be computed says why, until it is put again, and is due again after a second', async () => {
    await put('daily', { nextAt: PAST });
    const beforeMs = await bus.nowMs();
    await fire('a', await firingOf('daily', { times: [], missed: 0, nextAt: PAST, error: 'internal' }));
    const { error, next_at } = await state('daily');
    assert.deepEqual([error, next_at], ['internal', String(PAST)]);
    assert.ok(Number(await score('daily')) >= beforeMs + 1000);
    await put('daily', { nextAt: PAST });
    assert.equal((await state('daily')).error, undefined);
  });

  test('has its due times missed while its topic is another client’s, and says so', async () => {
    await put('daily', { nextAt: PAST });
    await redis.store.run('remove_topic', { topic: 'widgets', series: [] });
    await bus.publishAll('a', ['widgets', 'mill', ['e1']]);
    assert.deepEqual(await fire('b', await firingOf('daily', { missed: 1, nextAt: PAST + 1000 })), [
      'claimed_by_other',
    ]);
    const { error_at, ...rest } = await state('daily');
    assert.deepEqual(rest, { fired: '0', missed: '2', error: 'topic_claimed', next_at: String(PAST + 1000) });
    assert.ok(Number(error_at) > PAST);
    await redis.store.run('remove_topic', { topic: 'widgets', series: [] });
    assert.deepEqual(await fire('c', await firingOf('daily')), [1]);
    assert.equal((await state('daily')).error, undefined);
    assert.equal(
      await redis.store.redis.hget('topic:widgets', 'publisher'),
      'shop',
      'it has claimed it again',
    );
  });

  test('is missed where there is no room for its topic', async () => {
    await put('daily', { nextAt: PAST });
    await redis.store.run('remove_topic', { topic: 'widgets', series: [] });
    const firing = await firingOf('daily');
    const { outcomes } = await fireTriggers(redis.store, 'a', [firing], { maxTopics: 0 });
    assert.deepEqual(outcomes, [{ outcome: 'no_room', fired: 0 }]);
    assert.equal((await state('daily')).error, 'limit_reached');
  });

  test('takes what it publishes from the rate of its client, and is missed while nothing is left', async () => {
    await put('tick', { nextAt: PAST });
    const limits = { burstMs: 60_000, eventsPerSecond: 1, bytesPerSecond: 0 };
    const times = Array.from({ length: 61 }, (_, second) => PAST + 1000 * second);
    const fireLimited = async (times: number[], nextAt: number) => {
      const { outcomes } = await fireTriggers(
        redis.store,
        'a',
        [await firingOf('tick', { times, nextAt })],
        limits,
      );
      return outcomes[0];
    };
    assert.deepEqual(await fireLimited(times, PAST), { outcome: 'handled', fired: 61 });
    assert.deepEqual(await fireLimited(times.slice(0, 3), AHEAD), { outcome: 'rate_limited', fired: 0 });
    const { error, missed, fired } = await state('tick');
    assert.deepEqual([error, missed, fired], ['rate_limited', '3', '61']);
    const demands = [{ client: 'shop', events: 1, bytes: 1, isAdmitted: false }];
    const [spent] = await redis.store.run('spend', { ...limits, demands });
    assert.equal(spent?.letIn, false, 'its publishes wait too');
  });

  test('stops when a call has done enough: the rest is due in the next one', async () => {
    await bus.subscribe('alice', { max: 10_000 });
    const times = Array.from({ length: 700 }, (_, second) => PAST + 1000 * second);
    for (const name of ['a', 'b']) await put(name, { nextAt: PAST });
    const firings = await Promise.all(['a', 'b'].map((name) => firingOf(name, { times, missed: 3 })));
    const [fired, left] = await fire('a', ...firings);
    assert.ok(typeof fired === 'number' && fired > 100 && fired < 700, String(fired));
    assert.equal(left, 'left');
    assert.equal((await state('a')).next_at, String(times[fired]));
    assert.equal((await state('b')).next_at, String(PAST));
    for (let done = fired; done < 700; ) {
      const [more] = await fire('b', await firingOf('a', { times: times.slice(done) }));
      done += Number(more);
    }
    const ids = Object.values((await bus.state()).batches).flatMap(({ events }) =>
      events.map((each) => JSON.parse(each).t),
    );
    assert.deepEqual(ids, times);
    assert.equal((await state('a')).fired, '700');
  });

  test('leaves triggers to the next call where their topics have many subscribers of their own', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `t${i}`);
    for (const name of names) {
      for (let i = 0; i < 20; i++) await bus.subscribe(`${name}_${i}`, { topics: [`topic_${name}`] });
      await put(name, { topic: `topic_${name}`, nextAt: PAST });
    }
    const firings = await Promise.all(names.map((name) => firingOf(name)));
    const outcomes = await fire('a', ...firings);
    const fired = outcomes.filter((outcome) => outcome === 1).length;
    assert.ok(fired > 5 && fired < 20, `${fired} fired`);
    assert.ok(outcomes.slice(fired).every((outcome) => outcome === 'left'));
  });

  test('does less in a call where subscribers are many, or events long, but always something', async () => {
    const { redis: commands, keys } = redis.store;
    const tokens = Array.from({ length: 3000 }, (_, i) => `s${i}`);
    await bus.subscribe('alice');
    await put('daily', { nextAt: PAST, data: JSON.stringify('x'.repeat(50_000)) });
    const times = Array.from({ length: 50 }, (_, second) => PAST + 1000 * second);
    const [byBytes] = await fire('a', await firingOf('daily', { times, nextAt: PAST }));
    assert.ok(Number(byBytes) >= 20 && Number(byBytes) < 50, `${byBytes} of 50 KB`);
    await commands.sadd(keys.topic_subscribers('widgets'), ...tokens);
    const [byCopies] = await fire('b', await firingOf('daily', { times }));
    assert.equal(byCopies, 1);
    await redis.flush();
  });
});

describe('what is due', () => {
  test('is what its time has come of, the first due first, up to a limit', async () => {
    for (const [name, nextAt] of [
      ['b', PAST + 1],
      ['a', PAST + 2],
      ['c', PAST],
      ['d', AHEAD],
    ] as const)
      await put(name, { nextAt, catchUp: 'none' });
    assert.deepEqual(
      (await due()).map(({ name }) => name),
      ['c', 'b', 'a'],
    );
    const [first] = await due(1);
    const { revision, ...rest } = first ?? assert.fail();
    assert.deepEqual(rest, {
      client: 'shop',
      name: 'c',
      dueAt: PAST,
      catchUp: 'none',
      timing: JSON.stringify(EVERY_SECOND),
    });
    assert.equal((await due(2)).length, 2);
  });

  test('is less if definitions are long', async () => {
    for (let i = 0; i < 30; i++)
      await put(`t${i}`, { nextAt: PAST, data: JSON.stringify('x'.repeat(60_000)) });
    const { length } = await due();
    assert.ok(length > 10 && length < 20, `${length} of 60 KB`);
  });

  test('does not keep the scheduler awake if it cannot fire', async () => {
    const { redis: commands, keys } = redis.store;
    for (const name of ['gone', 'half', 'moved', 'paused', 'whole']) await put(name, { nextAt: PAST });
    await commands.hdel(keys.triggers_of('shop'), 'gone');
    await commands.del(keys.trigger('shop', 'gone'));
    await commands.hset(keys.trigger('shop', 'moved'), 'next_at', AHEAD);
    await commands.hset(keys.trigger('shop', 'paused'), 'paused', 1);
    await commands.hset(keys.triggers_of('shop'), 'half', 'nonsense');
    await commands.zadd(keys.triggers_due(), PAST, 'nonsense', PAST, 'wrong shop');
    await commands.set(keys.trigger('shop', 'wrong'), 'not a hash');
    assert.deepEqual(
      (await due()).map(({ name }) => name),
      ['whole'],
    );
    const entries = await commands.zrange(keys.triggers_due(), '0', '-1', 'WITHSCORES');
    assert.deepEqual(entries, [
      'whole shop',
      String(PAST),
      'moved shop',
      String(AHEAD),
      'paused shop',
      'inf',
    ]);
    await redis.flush();
  });
});
