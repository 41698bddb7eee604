import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { commands, loadScripts } from '../../harness/redis/script_calls.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { aliceWithBatches, storedEvents } from '../../harness/scripts/batches_of_alice.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Begun } from '../../harness/scripts/bus_inputs.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName, nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Listener } from './listener.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('what autodrop drops', () => {
  test('is dead letters first, in the order of their deaths, and then batches, the oldest first', async () => {
    await aliceWithBatches(bus, 1, 1, 1, 1);
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.bury('w2', 'ab1');
    await until(
      async () =>
        (await bus.nowMs()) > Number(await bus.store.redis.zscore('dead_letters:index', longName('ab1'))),
    );
    await bus.bury('w1', 'aa1');
    await bus.nack('w3', 'ac1', { delayMs: 60_000 });
    const left = async () => [...Object.keys(await readDeadLetters(bus.store)), ...(await bus.state()).index];
    const gone: string[][] = [];
    for (let i = 0; i < 4; i++) {
      const before = await left();
      assert.equal((await bus.autodrop(1)).batches, 1);
      const after = await left();
      gone.push(before.filter((name) => !after.includes(name)));
      await assertConsistent(bus.store);
    }
    assert.deepEqual(gone, [['ab1'], ['aa1'], ['ac1'], ['ad1']]);
    assert.equal((await bus.autodrop(1)).batches, 0);
  });

  test('is ordered by age within a millisecond too', async () => {
    await bus.subscribe('alice', { max: 1 });
    const words = Array.from({ length: 20 }, (_, i) => nthWord(i)).reverse();
    await Promise.all(words.map((word) => bus.publish(word, 'widgets', ['e'])));
    await bus.autodrop(5);
    assert.deepEqual(
      (await bus.state()).index,
      words.slice(5).map((word) => `${word}1`),
    );
  });

  test('includes batches in the call that drops the last dead letter', async () => {
    await aliceWithBatches(bus, 1, 1, 1);
    await bus.acquire(['w1']);
    await bus.bury('w1', 'aa1');
    assert.deepEqual(await bus.autodrop(2), { batches: 2, dropped: { alice: 2 } });
    assert.deepEqual((await bus.state()).index, ['ac1']);
  });

  test('is limited to some thousand events a call', async () => {
    await bus.subscribe('alice', { max: 1000 });
    for (let i = 0; i < 9; i++) await bus.publish(nthWord(i), 'widgets', storedEvents('widgets', 1000));
    assert.deepEqual(await bus.autodrop(100), { batches: 2, dropped: { alice: 2000 } });
  });

  test('is limited to one or two megabytes a call', async () => {
    await bus.subscribe('alice', { max: 10 });
    for (let i = 0; i < 9; i++)
      await bus.publish(nthWord(i), 'widgets', storedEvents('widgets', 10, 'x'.repeat(40_000)));
    assert.deepEqual(await bus.autodrop(100), { batches: 4, dropped: { alice: 40 } });
  });

  test('is counted for all batches of a call at once: each further batch takes one command', async () => {
    await bus.subscribe('alice', { max: 1 });
    await loadScripts(bus.store);
    const spent: number[] = [];
    // Both leave the delivery log with 16 records or more; for a shorter one a command finds out how long it may be.
    for (const batches of [20, 49]) {
      await bus.publish(nthWord(batches), 'widgets', storedEvents('widgets', batches));
      const before = await commands(bus.store);
      assert.equal((await bus.autodrop(100)).batches, batches);
      spent.push((await commands(bus.store)) - before);
    }
    const [fewer = 0, more = 0] = spent;
    assert.equal(more - fewer, 29);
  });

  test('is reported separately for batches and dead letters', async () => {
    await aliceWithBatches(bus, 2, 3);
    await bus.acquire(['w1']);
    await bus.bury('w1', 'aa1');
    const { dropped, queued } = await bus.autodropStep(2);
    assert.deepEqual([dropped, queued], [{ alice: 5 }, { alice: 3 }]);
  });

  test('makes the next batch of an ordered lane ready, and announces it', async (t) => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    await bus.publish('a', 'widgets', storedEvents('widgets', 3));
    await bus.acquire(['w1', 'w2', 'w3']);
    await bus.nack('w1', 'a1', { delayMs: 60_000 });
    assert.deepEqual((await bus.state()).lanes.waiting, { alice: ['a2', 'a3'] });
    const listener = await Listener.open(redis.store);
    t.after(() => listener.close());
    assert.deepEqual(await listener.during(bus.store, () => bus.autodrop(1)), ['wake:main']);
    assert.deepEqual((await bus.state()).main.instant, ['a2']);
  });
});

describe('a large batch', () => {
  const MAX_BYTES = 16 * 1024 * 1024;
  const NOTHING: Begun = { begunTopics: [] };
  const publishLarge = (name: string, n = 10_000) => bus.publish(name, 'widgets', storedEvents('widgets', n));

  /** Drops one batch in as many calls as that takes. Calls `between` after each call. */
  async function dropOne(between = async () => {}, counted: Begun = NOTHING) {
    const before = await bus.gaps('alice');
    for (let calls = 1, begun = counted; ; calls++) {
      const step = await bus.autodropStep(1, begun);
      begun = step.begun;
      if (step.batches > 0) return { calls, ...step };
      assert.ok(begun.begunBid !== undefined && calls < 10, `${calls} calls`);
      assert.deepEqual(await bus.gaps('alice'), before, 'nothing is dropped yet');
      await between();
    }
  }

  test('is counted in several calls, and dropped by the last of them, with the exact number of events', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], max: 20_000, maxBytes: MAX_BYTES });
    for (const [i, topic] of ['widgets', 'gadgets', 'widgets', 'gadgets'].entries())
      await bus.publish(nthWord(i), topic, storedEvents(topic, 2000 + i));
    const { calls, dropped, begun } = await dropOne();
    assert.ok(calls > 1);
    assert.deepEqual([dropped, begun.begunBid], [{ alice: 8006 }, undefined]);
    const { ever } = await bus.gaps('alice');
    assert.deepEqual(
      [ever?.batches, ever?.events, ever?.topics],
      [1, 8006, { widgets: 4002, gadgets: 4004 }],
    );
    assert.deepEqual((await bus.state()).index, []);
  });

  test('may grow between these calls', async () => {
    await bus.subscribe('alice', { max: 20_000, maxBytes: MAX_BYTES });
    await publishLarge('a');
    let grown = 0;
    const grow = () => publishLarge(nthWord(++grown), 100);
    const { dropped } = await dropOne(grow);
    assert.deepEqual(
      [dropped, (await bus.gaps('alice')).ever?.topics],
      [{ alice: 10_000 + 100 * grown }, { widgets: 10_000 + 100 * grown }],
    );
  });

  test('may be delivered or die between these calls: its counted events are not added to another batch', async () => {
    await bus.subscribe('alice', { max: 10_000, maxBytes: MAX_BYTES, topics: ['widgets', 'gadgets'] });
    await publishLarge('a');
    await bus.publish('b', 'gadgets', storedEvents('gadgets', 5));
    const { begun } = await bus.autodropStep(1);
    await bus.acquire(['w1']);
    const { begunBid, begunItems = 0, begunTopics } = begun;
    assert.deepEqual(
      [begunBid, begunTopics],
      [longName('a1'), [{ topic: 'widgets', events: begunItems - 3 }]],
    );
    assert.deepEqual(await bus.autodropStep(1, begun), {
      batches: 1,
      dropped: { alice: 5 },
      queued: { alice: 5 },
      begun: { begunBid: undefined, begunItems: undefined, begunTopics: [] },
    });
    assert.deepEqual((await bus.gaps('alice')).ever?.topics, { gadgets: 5 });
    await bus.bury('w1', 'a1');
    const { dropped, queued } = await dropOne(undefined, begun);
    assert.deepEqual([dropped, queued], [{ alice: 10_000 }, { alice: 0 }]);
    assert.deepEqual((await bus.gaps('alice')).ever?.topics, { widgets: 10_000, gadgets: 5 });
  });

  test('may be cut shorter between these calls than what was counted: it is counted again', async () => {
    await bus.subscribe('alice', { max: 10_000, maxBytes: MAX_BYTES });
    await publishLarge('a');
    const { begun } = await bus.autodropStep(1);
    await bus.subscribe('alice', { max: 9500, maxBytes: MAX_BYTES });
    await bus.acquire(['w1']);
    const { dropped } = await dropOne(undefined, begun);
    assert.deepEqual([dropped, (await bus.gaps('alice')).ever?.topics], [{ alice: 500 }, { widgets: 500 }]);
  });

  test('is counted again from its beginning if the counting process died', async () => {
    await bus.subscribe('alice', { max: 10_000, maxBytes: MAX_BYTES });
    await publishLarge('a');
    await bus.autodropStep(1);
    const { dropped } = await dropOne();
    assert.deepEqual(
      [dropped, (await bus.gaps('alice')).ever?.topics],
      [{ alice: 10_000 }, { widgets: 10_000 }],
    );
  });
});
