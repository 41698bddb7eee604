import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { DELAY_LIMITS, type Timed } from '../../harness/scripts/bus_inputs.ts';
import { readDelayed } from '../../harness/scripts/delayed.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { seedOf } from '../../harness/scripts/names.ts';
import { EMPTY } from '../../harness/scripts/state.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;
const YEAR_MS = DELAY_LIMITS.maxDelayMs;

const waiting = async (topic = 'widgets') => (await readDelayed(redis.store))[topic] ?? [];
const ids = async (topic = 'widgets') => (await waiting(topic)).map(({ id }) => id);

async function changesNothing(call: () => Promise<unknown>): Promise<void> {
  const before = await snapshot(redis.store);
  await call();
  assert.deepEqual(await snapshot(redis.store), before);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('a delayed event', () => {
  test('waits until its time, and is in no batch meanwhile', async () => {
    await bus.subscribe('alice');
    const fromMs = await bus.nowMs();
    assert.deepEqual(await bus.delay('a', 'widgets', [{ id: 'e1', delay: 500 }]), {
      outcome: 'accepted',
      index: undefined,
      added: {},
    });
    const [{ dueMs, text } = assert.fail()] = await waiting();
    assert.ok(dueMs >= fromMs + 500 && dueMs <= (await bus.nowMs()) + 500);
    assert.equal(text, 'e1');
    assert.deepEqual(await bus.state(), EMPTY);
    assert.equal(await redis.store.redis.hget('topic:widgets', 'counter'), null);
  });

  test('has its due time between the two parts of its text', async () => {
    await bus.delay('a', 'widgets', [{ id: 'e1', delay: 500, text: '{"t":', rest: '}' }]);
    const [{ dueMs, text } = assert.fail()] = await waiting();
    assert.equal(text, `{"t":${dueMs}}`);
  });

  test('may be due in a year, and not later', async () => {
    const nowMs = await bus.nowMs();
    const events: Timed[] = [
      { id: 'e1', at: nowMs + YEAR_MS },
      { id: 'e2', delay: YEAR_MS },
    ];
    assert.equal((await bus.delay('a', 'widgets', events)).outcome, 'accepted');
    await changesNothing(async () => {
      const far: Timed[] = [{ id: 'e3' }, { id: 'e4', at: nowMs + YEAR_MS + 60_000 }];
      const { outcome, index } = await bus.delay('b', 'gadgets', far);
      assert.deepEqual([outcome, index], ['too_far', 1]);
    });
  });

  test('stands among others by its time, and with the same time in the order of acceptance', async () => {
    const at = (await bus.nowMs()) + HOUR_MS;
    await bus.delay('a', 'widgets', [
      { id: 'z', at },
      { id: 'm', at: at + 1 },
      { id: 'a', at },
    ]);
    await bus.delay('b', 'widgets', [
      { id: 'b', at },
      { id: 'c', at: at - 1 },
    ]);
    assert.deepEqual(await ids(), ['c', 'z', 'a', 'b', 'm']);
  });

  test('makes its client the publisher of the topic, and refuses another', async () => {
    await bus.delay('a', 'widgets', [{ id: 'e1', delay: 1000 }]);
    assert.deepEqual(await bus.store.redis.smembers('topics:owned:shop'), ['widgets']);
    await changesNothing(async () => {
      // The answer must not tell a client which ids wait in a topic of another client.
      const other = await bus.delay('b', 'widgets', [{ id: 'e1', delay: 1000 }], { client: 'mill' });
      assert.equal(other.outcome, 'claimed_by_other');
    });
  });
});

describe('an event whose time has come', () => {
  test('is published at once, in its place among those without a time', async () => {
    await bus.subscribe('alice');
    const nowMs = await bus.nowMs();
    const { added } = await bus.delay('a', 'widgets', [
      { id: 'e1' },
      { id: 'e2', at: nowMs - 1 },
      { id: 'later', delay: 1000 },
      { id: 'e3', at: 0 },
      { id: 'e4' },
    ]);
    assert.deepEqual(added, { alice: 4 });
    assert.deepEqual((await bus.state()).batches.a1?.events, ['e1', 'e2', 'e3', 'e4']);
    assert.deepEqual(await ids(), ['later']);
    assert.equal(await bus.store.redis.hget('topic:widgets', 'counter'), '4');
  });

  test('is counted in the reply', async () => {
    await bus.subscribe('alice');
    await bus.subscribe('bob');
    const { outcomes, published } = await bus.store.run('delay', {
      ...{ uidSeed: seedOf('a'), ...DELAY_LIMITS },
      publications: [
        {
          topic: 'widgets',
          client: 'shop',
          events: [
            { id: '', text: 'e1' },
            { id: 'x', delay: 9, text: 'e2' },
          ],
        },
        { topic: 'gadgets', client: 'shop', events: [{ id: 'x', delay: 9, text: 'e3' }] },
      ],
    });
    const accepted = { outcome: 'accepted', index: undefined };
    assert.deepEqual(outcomes, [
      { ...accepted, subscribers: 2 },
      { ...accepted, subscribers: 0 },
    ]);
    const [widgets, none] = published;
    assert.deepEqual([widgets?.topic, widgets?.events, widgets?.bytes], ['widgets', 1, 2]);
    assert.deepEqual(widgets?.subscribers.split('\n').sort(), ['alice', 'bob']);
    assert.equal(none, undefined);
  });

  test('counts the subscribers that its topic has in other partitions', async () => {
    await bus.subscribe('alice');
    await bus.store.redis.hset('topic:widgets', 'elsewhere', '1:30:1795400000000000 2:4:1795400000000000');
    const { outcomes } = await bus.store.run('delay', {
      ...{ uidSeed: seedOf('a'), ...DELAY_LIMITS },
      publications: [{ topic: 'widgets', client: 'shop', events: [{ id: '', text: 'e1' }] }],
    });
    assert.equal(outcomes[0]?.subscribers, 35);
  });
});

describe('an id that waits already', () => {
  test('refuses the whole publication, until its event is published or deleted', async () => {
    await bus.delay('a', 'widgets', [{ id: 'e1', delay: HOUR_MS }]);
    await changesNothing(async () => {
      const again = await bus.delay('b', 'widgets', [
        { id: 'e0' },
        { id: 'e2', delay: 9 },
        { id: 'e1', delay: 9 },
      ]);
      assert.deepEqual([again.outcome, again.index], ['already_delayed', 2]);
    });
    await bus.store.run('delete_delayed', { topic: 'widgets', id: 'e1' });
    assert.equal((await bus.delay('c', 'widgets', [{ id: 'e1', delay: HOUR_MS }])).outcome, 'accepted');
    await bus.hasten('widgets', HOUR_MS);
    await bus.publishDelayed('d');
    assert.equal((await bus.delay('e', 'widgets', [{ id: 'e1', delay: HOUR_MS }])).outcome, 'accepted');
  });

  test('is another in another topic, and in an event that is due', async () => {
    await bus.delay('a', 'widgets', [{ id: 'e1', delay: HOUR_MS }]);
    assert.equal((await bus.delay('b', 'gadgets', [{ id: 'e1', delay: HOUR_MS }])).outcome, 'accepted');
    assert.equal((await bus.delay('c', 'widgets', [{ id: 'e1', at: 1 }])).outcome, 'accepted');
  });

  test('may not come twice in a publication, or in a call', async () => {
    const twice: Timed[] = [
      { id: 'e1', delay: 9 },
      { id: 'e1', delay: 10 },
    ];
    await changesNothing(async () => {
      const { outcome, index } = await bus.delay('a', 'widgets', twice);
      assert.deepEqual([outcome, index], ['already_delayed', 1]);
    });
    const events = [{ id: 'e1', delay: HOUR_MS, text: 'e1' }];
    const publication = { topic: 'widgets', client: 'shop', events };
    const { outcomes } = await bus.store.run('delay', {
      ...{ uidSeed: seedOf('a'), ...DELAY_LIMITS },
      publications: [publication, publication],
    });
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ['accepted', 'already_delayed'],
    );
  });
});

describe('an idempotency key', () => {
  const key = (fingerprint = 'as it was') => ({ digest: 'k'.padEnd(22, '-'), fingerprint });
  const events = [{ id: 'e1', delay: HOUR_MS }, { id: 'e2' }];

  test('covers events that wait: the same again changes nothing', async () => {
    await bus.subscribe('alice');
    await bus.delay('a', 'widgets', events, { key: key() });
    await changesNothing(async () => {
      assert.equal((await bus.delay('b', 'widgets', events, { key: key() })).outcome, 'repeated');
      assert.equal((await bus.delay('c', 'widgets', events, { key: key('other') })).outcome, 'key_reused');
      const { accepted } = await bus.publishAll('d', ['widgets', 'shop', ['e3'], key()]);
      assert.deepEqual(accepted, ['repeated']);
    });
  });

  test('of what was refused is free', async () => {
    await bus.delay('a', 'widgets', [{ id: 'e1', delay: HOUR_MS }]);
    assert.equal((await bus.delay('b', 'widgets', events, { key: key() })).outcome, 'already_delayed');
    await bus.store.run('delete_delayed', { topic: 'widgets', id: 'e1' });
    assert.equal((await bus.delay('c', 'widgets', events, { key: key() })).outcome, 'accepted');
  });
});

describe('a client', () => {
  const some = (n: number, name = 'e'): Timed[] =>
    Array.from({ length: n }, (_, i) => ({ id: `${name}${i}`, delay: HOUR_MS }));

  test('may have so many delayed events in all of its topics, and what is due does not count', async () => {
    const limits = { maxClientDelayed: 5 };
    await bus.delay('a', 'widgets', some(3), { limits });
    await changesNothing(async () => {
      assert.equal((await bus.delay('b', 'gadgets', some(3), { limits })).outcome, 'too_many_delayed');
    });
    assert.equal(
      (await bus.delay('c', 'gadgets', [...some(2), { id: 'x' }], { limits })).outcome,
      'accepted',
    );
    assert.equal((await bus.delay('d', 'gadgets', [{ id: 'y' }], { limits })).outcome, 'accepted');
    assert.equal((await bus.delay('e', 'gizmos', some(5), { client: 'mill', limits })).outcome, 'accepted');
    await bus.hasten('widgets', HOUR_MS);
    await bus.publishDelayed('f');
    assert.equal((await bus.delay('g', 'widgets', some(3, 'f'), { limits })).outcome, 'accepted');
  });

  test('may have so many bytes, of which each event takes 250 beside its text', async () => {
    const limits = { maxClientBytes: 1000 };
    const event = (id: string, length: number) => ({ id, delay: HOUR_MS, text: 'x'.repeat(length) });
    assert.equal((await bus.delay('a', 'widgets', [event('e1', 300)], { limits })).outcome, 'accepted');
    await changesNothing(async () => {
      assert.equal(
        (await bus.delay('b', 'gadgets', [event('e2', 201)], { limits })).outcome,
        'too_much_delayed',
      );
    });
    assert.equal((await bus.delay('c', 'gadgets', [event('e2', 200)], { limits })).outcome, 'accepted');
  });

  test('is told of a repeat though it has no room, as long as the last of the events waits', async () => {
    const limits = { maxClientDelayed: 3 };
    const three: Timed[] = [
      { id: 'e1', delay: HOUR_MS },
      { id: 'e2', delay: 2 * HOUR_MS },
      { id: 'e3', delay: HOUR_MS },
    ];
    await bus.delay('a', 'widgets', three, { limits });
    await bus.hasten('widgets', HOUR_MS);
    await bus.publishDelayed('b');
    const again = await bus.delay('c', 'widgets', [...three, { id: 'e4', delay: 9 }], { limits });
    assert.deepEqual([again.outcome, again.index], ['already_delayed', 1]);
  });

  test('is limited within one call too', async () => {
    const publication = (name: string) => ({
      topic: 'widgets',
      client: 'shop',
      events: some(2, name).map((each) => ({ text: each.id, ...each })),
    });
    const { outcomes } = await bus.store.run('delay', {
      ...{ uidSeed: seedOf('a'), ...DELAY_LIMITS, maxClientDelayed: 5 },
      publications: ['a', 'b', 'c'].map(publication),
    });
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ['accepted', 'accepted', 'too_many_delayed'],
    );
  });
});

test('the scheduler is woken for what is due before everything else, and only for that', async (t) => {
  const listener = await Listener.open(redis.store);
  t.after(() => listener.close());
  const announced = (topic: string, delay: number) =>
    listener.during(redis.store, () => bus.delay('a', topic, [{ id: `e${delay}`, delay }]));
  assert.deepEqual(await announced('widgets', 9000), ['wake:due']);
  assert.deepEqual(await announced('widgets', 10_000), []);
  assert.deepEqual(await announced('gadgets', 20_000), []);
  assert.deepEqual(await announced('gadgets', 5000), ['wake:due']);
});

test('a publication that cannot be stored wholly stores nothing for later, and may be repeated', async () => {
  await bus.subscribe('alice');
  await bus.store.redis.set('batches:index:alice', 'not a sorted set');
  const key = { digest: 'k'.padEnd(22, '-'), fingerprint: 'f' };
  const events = [{ id: 'e1' }, { id: 'e2', delay: HOUR_MS }];
  await assert.rejects(bus.delay('a', 'widgets', events, { key }), /WRONGTYPE/);
  assert.deepEqual(await ids(), []);
  await bus.store.redis.del('batches:index:alice');
  assert.equal((await bus.delay('b', 'widgets', events, { key })).outcome, 'accepted');
  await redis.flush();
});
