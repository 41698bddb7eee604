import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName, packNamed, shortName } from '../../harness/scripts/names.ts';
import { EMPTY, EMPTY_LANES, EMPTY_QUEUE } from '../../harness/scripts/state.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const many = (n: number, prefix = 'e') => Array.from({ length: n }, (_, i) => `${prefix}${i}`);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('topics', () => {
  test('belong to the first client that publishes to them', async () => {
    assert.deepEqual(await bus.publishAll('a', ['widgets', 'shop', ['e1']]), {
      accepted: [0],
      added: {},
    });
    const before = await snapshot(bus.store);
    assert.deepEqual(await bus.publishAll('b', ['widgets', 'other', ['e2']]), {
      accepted: ['claimed_by_other'],
      added: {},
    });
    assert.deepEqual(await snapshot(bus.store), before);
    assert.deepEqual(await bus.store.redis.smembers('topics'), ['widgets']);
    assert.deepEqual(await bus.store.redis.hgetall('topic:widgets'), { publisher: 'shop', counter: '1' });
  });

  test('created by a subscription have no publisher until then', async () => {
    await bus.subscribe('alice', { topics: ['widgets'] });
    assert.equal(await bus.store.redis.exists('topic:widgets'), 0);
    await bus.publish('a', 'widgets', ['e1']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'publisher'), 'shop');
  });

  test('with an empty publisher, as the Ruby Routemaster may leave them, are claimed', async () => {
    await bus.store.redis.sadd('topics', 'widgets');
    await bus.store.redis.hset('topic:widgets', 'publisher', '', 'counter', 7);
    await bus.publish('a', 'widgets', ['e1']);
    assert.deepEqual(await bus.store.redis.hgetall('topic:widgets'), { publisher: 'shop', counter: '8' });
  });

  test('of another client refuse their own publish in a group and no other', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    const { accepted, added } = await bus.publishAll(
      'a',
      ['widgets', 'shop', ['e1']],
      ['gadgets', 'mill', ['e2', 'e3']],
      ['widgets', 'mill', ['e4', 'e5']],
      ['gadgets', 'shop', ['e6']],
      ['widgets', 'shop', ['e7']],
    );
    assert.deepEqual(accepted, [1, 1, 'claimed_by_other', 'claimed_by_other', 1]);
    assert.deepEqual(added, { alice: 4 });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e3', 'e7']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '2');
    assert.equal(await bus.store.redis.hget('topic:gadgets', 'counter'), '2');
  });

  test('without subscribers count their events but store none', async () => {
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    assert.deepEqual(await bus.state(), EMPTY);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '2');
  });
});

describe('the first event for a subscriber', () => {
  test('opens a batch and schedules its job for the end of the timeout', async () => {
    await bus.subscribe('alice', { timeout: 700 });
    const earliest = await bus.nowMs();
    await bus.publish('a', 'widgets', ['e1']);
    const latest = await bus.nowMs();
    assert.deepEqual(await bus.state(), {
      batches: { a1: { token: 'alice', attempts: 0, events: ['e1'] } },
      index: ['a1'],
      queued: { alice: ['a1'] },
      current: { alice: ['a1'] },
      gauges: { events: { alice: 1 }, batches: { alice: 1 } },
      main: { ...EMPTY_QUEUE, index: ['a1'], scheduled: ['a1'] },
      aux: EMPTY_QUEUE,
      lanes: EMPTY_LANES,
    });
    const createdMs = await bus.createdMs('a1');
    assert.ok(earliest <= createdMs && createdMs <= latest);
    assert.equal(
      await bus.store.redis.zscore('jobs:scheduled:main', packNamed('a1')),
      String(createdMs + 700),
    );
  });

  test('with timeout 0 makes the job instant, and leaves the batch open', async () => {
    await bus.subscribe('alice', { timeout: 0 });
    await bus.publish('a', 'widgets', ['e1']);
    await bus.publish('b', 'widgets', ['e2']);
    const state = await bus.state();
    assert.deepEqual(state.batches, { a1: { token: 'alice', attempts: 0, events: ['e1', 'e2'] } });
    assert.deepEqual(state.current, { alice: ['a1'] });
    assert.deepEqual(state.main, { ...EMPTY_QUEUE, index: ['a1'], instant: ['a1'] });
  });

  test('with max 1 opens no batch that could be seen open', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    const state = await bus.state();
    assert.deepEqual(state.current, {});
    assert.deepEqual(state.main, { ...EMPTY_QUEUE, index: ['a1', 'a2'], instant: ['a1', 'a2'] });
  });
});

describe('a batch', () => {
  test('takes events until it has max of them exactly, and is then ready at once', async () => {
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    assert.deepEqual((await bus.state()).main, { ...EMPTY_QUEUE, index: ['a1'], scheduled: ['a1'] });
    await bus.publish('b', 'widgets', ['e3']);
    const state = await bus.state();
    assert.deepEqual(state.batches, { a1: { token: 'alice', attempts: 0, events: ['e1', 'e2', 'e3'] } });
    assert.deepEqual(state.current, {});
    assert.deepEqual(state.main, { ...EMPTY_QUEUE, index: ['a1'], instant: ['a1'] });
    assert.deepEqual(state.gauges, { events: { alice: 3 }, batches: { alice: 1 } });
  });

  test('that is crossed by a publication is filled first; what is left goes into new ones', async () => {
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('a', 'widgets', many(2));
    await bus.publish('b', 'widgets', many(6, 'f'));
    const state = await bus.state();
    const events = Object.fromEntries(
      Object.entries(state.batches).map(([name, batch]) => [name, batch.events]),
    );
    assert.deepEqual(events, { a1: ['e0', 'e1', 'f0'], b1: ['f1', 'f2', 'f3'], b2: ['f4', 'f5'] });
    assert.deepEqual(state.index, ['a1', 'b1', 'b2']);
    assert.deepEqual(state.current, { alice: ['b2'] });
    assert.deepEqual(state.main, {
      ...EMPTY_QUEUE,
      index: ['a1', 'b1', 'b2'],
      instant: ['a1', 'b1'],
      scheduled: ['b2'],
    });
    assert.deepEqual(state.gauges, { events: { alice: 8 }, batches: { alice: 3 } });
  });

  test('that holds more than a max lowered meanwhile is closed, and takes no more', async () => {
    await bus.subscribe('alice', { max: 10 });
    await bus.publish('a', 'widgets', many(5));
    await bus.subscribe('alice', { max: 3 });
    await bus.publish('b', 'widgets', ['f1']);
    const state = await bus.state();
    assert.equal(state.batches.a1?.events.length, 5);
    assert.deepEqual(state.batches.b1?.events, ['f1']);
    assert.deepEqual(state.current, { alice: ['b1'] });
    assert.deepEqual(state.main, { ...EMPTY_QUEUE, index: ['a1', 'b1'], instant: ['a1'], scheduled: ['b1'] });
  });

  test('takes as many as its subscriber asks for meanwhile', async () => {
    await bus.subscribe('alice', { max: 2 });
    await bus.publish('a', 'widgets', ['e1']);
    await bus.subscribe('alice', { max: 4 });
    for (const seed of ['b', 'c']) await bus.publish(seed, 'widgets', [seed]);
    assert.deepEqual((await bus.state()).current, { alice: ['a1'] });
    await bus.publish('d', 'widgets', ['d']);
    const { batches, current } = await bus.state();
    assert.deepEqual([batches.a1?.events, current], [['e1', 'b', 'c', 'd'], {}]);
  });

  test('whose job is instant already, as its deadline has come, keeps that one job when it fills up', async () => {
    await bus.subscribe('alice', { max: 2 });
    await bus.publish('a', 'widgets', ['e1']);
    await bus.ripen('a1');
    await bus.publish('b', 'widgets', ['e2']);
    const state = await bus.state();
    assert.deepEqual(state.current, {});
    assert.deepEqual(state.main, { ...EMPTY_QUEUE, index: ['a1'], instant: ['a1'] });
  });

  test('of which the list is gone is forgotten as the current one', async () => {
    await bus.subscribe('alice');
    await bus.subscribe('bob', { topics: ['gadgets'] });
    await bus.publish('b', 'gadgets', ['e0']);
    await bus.store.redis.sadd('batches:current:alice', longName('lost1'));
    await bus.store.redis.hset('batches:open', 'alice', longName('lost1'));
    await bus.publish('a', 'widgets', ['e1']);
    assert.deepEqual((await bus.state()).current, { alice: ['a1'], bob: ['b1'] });
  });

  test('takes the defaults of a subscriber that the Ruby Routemaster left without max_events and timeout', async () => {
    await bus.store.redis.sadd('subscribers', 'alice');
    await bus.store.redis.hset('subscriber:alice', 'callback', 'https://alice.example/', 'uuid', 'u');
    await bus.store.redis.sadd('topics', 'widgets');
    await bus.store.redis.sadd('topics:alice', 'widgets');
    await bus.store.redis.sadd('subscribers:widgets', 'alice');
    await bus.publish('a', 'widgets', many(101));
    const state = await bus.state();
    assert.equal(state.batches.a1?.events.length, 100);
    assert.equal(state.batches.a2?.events.length, 1);
    const due = Number(await bus.store.redis.zscore('jobs:scheduled:main', packNamed('a2')));
    assert.equal(due - (await bus.createdMs('a2')), 500);
  });

  test('holds one event at least, whatever the subscriber’s hash says', async () => {
    await bus.subscribe('alice');
    await bus.store.redis.hset('subscriber:alice', 'max_events', 0);
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    assert.deepEqual((await bus.state()).main.instant, ['a1', 'a2']);
  });
});

describe('order', () => {
  test('is that of acceptance, over all topics of a subscriber and all publications of a call', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], max: 4 });
    await bus.subscribe('bob', { topics: ['gadgets'], max: 4 });
    const { added } = await bus.publishAll(
      'a',
      ['widgets', 'shop', ['w1']],
      ['gadgets', 'mill', ['g1', 'g2']],
      ['widgets', 'shop', ['w2', 'w3']],
      ['gadgets', 'mill', ['g3']],
    );
    assert.deepEqual(added, { alice: 6, bob: 3 });
    const state = await bus.state();
    const of = (token: string) => state.queued[token]?.flatMap((name) => state.batches[name]?.events);
    assert.deepEqual(of('alice'), ['w1', 'g1', 'g2', 'w2', 'w3', 'g3']);
    assert.deepEqual(of('bob'), ['g1', 'g2', 'g3']);
    assert.deepEqual(state.gauges, { events: { alice: 6, bob: 3 }, batches: { alice: 2, bob: 1 } });
  });

  test('holds for more events than one call of Lua’s unpack takes', async () => {
    await bus.subscribe('alice', { max: 10_000 });
    await bus.subscribe('bob', { max: 4100 });
    const events = many(9001);
    await bus.publish('a', 'widgets', events);
    const state = await bus.state();
    const batches = (token: string) =>
      (state.queued[token] ?? []).map((name) => state.batches[name]?.events ?? []);
    assert.deepEqual(batches('alice').flat(), events);
    assert.deepEqual(batches('bob').flat(), events);
    assert.deepEqual(
      batches('bob').map((each) => each.length),
      [4100, 4100, 801],
    );
    assert.deepEqual(state.gauges.events, { alice: 9001, bob: 9001 });
  });

  test('and bytes: what is stored is what was given', async () => {
    await bus.subscribe('alice');
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await bus.publish('a', 'widgets', [bytes]);
    assert.deepEqual(await bus.store.redis.lrangeBuffer(`batch:${longName('a1')}`, 3, -1), [bytes]);
  });
});

describe('the index of a subscriber', () => {
  const scores = async () => {
    const flat = await bus.store.redis.zrange('batches:index:alice', '0', '-1', 'WITHSCORES');
    const names = flat.filter((_, i) => i % 2 === 0).map(shortName);
    return { names, scores: flat.filter((_, i) => i % 2 === 1).map(Number) };
  };

  test('has batches of an ordered one strictly in their order, whatever they are named', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    // Several calls fall into the same millisecond, and later calls get names that sort first.
    const seeds = ['zz', 'yy', 'cc', 'bb', 'aa'];
    for (const seed of seeds) await bus.publish(seed, 'widgets', many(50));
    const { names, scores: at } = await scores();
    assert.deepEqual(
      names,
      seeds.flatMap((seed) => many(50).map((_, i) => `${seed}${i + 1}`)),
    );
    for (const [i, score] of at.entries()) if (i > 0) assert.ok(score > (at[i - 1] ?? 0), `${i}: ${score}`);
    assert.ok(at.some((score) => score % 1000 > 0));
  });

  test('goes on behind the last batch of an ordered one when Redis’s clock was set back', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    await bus.publish('b', 'widgets', ['e1']);
    const ahead = ((await bus.nowMs()) + 500) * 1000;
    await bus.store.redis.zadd('batches:index:alice', ahead, longName('b1'));
    await bus.publish('a', 'widgets', ['e2']);
    assert.deepEqual(await scores(), { names: ['b1', 'a1'], scores: [ahead, ahead + 1] });
  });

  test('has batches in their order also where none was asked for yet: at their time, to the microsecond', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 0 });
    const seeds = ['zz', 'yy', 'cc', 'bb', 'aa'];
    for (const seed of seeds) await bus.publish(seed, 'widgets', many(50));
    const { names, scores: at } = await scores();
    assert.deepEqual(
      names,
      seeds.flatMap((seed) => many(50).map((_, i) => `${seed}${i + 1}`)),
    );
    const created = (await bus.store.redis.lindex(`batch:${longName('zz1')}`, 1)) ?? '';
    assert.deepEqual(
      at.slice(0, 50).map((score) => String(Math.floor(score / 1000))),
      Array(50).fill(created),
    );
  });
});

test('UIDs of one call differ, beyond the 64th too', async () => {
  await bus.subscribe('alice', { max: 1 });
  await bus.publish('a', 'widgets', many(200));
  const state = await bus.state();
  assert.equal(state.main.instant.length, 200);
  assert.equal(state.main.instant[199], 'a200');
  assert.deepEqual(state.batches.a200?.events, ['e199']);
});
