import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Timed } from '../../harness/scripts/bus_inputs.ts';
import { readDelayed } from '../../harness/scripts/delayed.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import type { Arguments } from '../../src/store/contracts.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;
let at: number;

const ids = async (topic = 'widgets') => (await readDelayed(redis.store))[topic]?.map(({ id }) => id) ?? [];
const some = (n: number): Timed[] =>
  Array.from({ length: n }, (_, i) => ({ id: `e${i}`, at: at + Math.floor(i / 3) }));
const list = (args: Partial<Arguments<'list_delayed'>> = {}) =>
  redis.store.run('list_delayed', { topic: 'widgets', limit: 100, maxBytes: 1_000_000, ...args });
const remove = (id: string, client?: string) =>
  redis.store.run('delete_delayed', { topic: 'widgets', id, client });

beforeEach(async () => {
  await redis.flush();
  at = (await bus.nowMs()) + HOUR_MS;
});
afterEach(() => assertConsistent(redis.store));

describe('list_delayed', () => {
  test('gives the events in the order in which they are due, with their times', async () => {
    await bus.delay('a', 'widgets', [
      { id: 'e2', at: at + 1 },
      { id: 'e1', at },
    ]);
    assert.deepEqual(await list(), {
      outcome: 'ok',
      events: [
        { at, serial: 2, text: 'e1' },
        { at: at + 1, serial: 1, text: 'e2' },
      ],
      hasMore: false,
    });
  });

  test('gives pages that have each event once, also where what they began behind has gone', async () => {
    await bus.delay('a', 'widgets', some(100));
    for (const goes of [false, true]) {
      const found: string[] = [];
      const expected = await ids();
      let page = await list({ limit: 7 });
      for (;;) {
        found.push(...page.events.map(({ text }) => text));
        const last = page.events.at(-1);
        if (!page.hasMore || !last) break;
        if (goes) await remove(last.text);
        page = await list({ limit: 7, afterMs: last.at, afterSerial: last.serial });
      }
      assert.deepEqual(found, expected);
    }
  });

  test('ends a page with the event by which its texts have so many bytes', async () => {
    const large = some(30).map((each) => ({ ...each, text: 'x'.repeat(1000) }));
    await bus.delay('a', 'widgets', large);
    const { events, hasMore } = await list({ maxBytes: 2500 });
    assert.deepEqual([events.length, hasMore], [3, true]);
    assert.equal((await list({ maxBytes: 1 })).events.length, 1);
  });

  test('is for the publisher of the topic, and for root', async () => {
    await bus.delay('a', 'widgets', some(1));
    assert.equal((await list({ client: 'shop' })).outcome, 'ok');
    assert.deepEqual(await list({ client: 'mill' }), { outcome: 'forbidden', events: [], hasMore: false });
    assert.equal((await list({ topic: 'unheard_of' })).outcome, 'topic_not_found');
    await bus.publish('b', 'gadgets', ['e']);
    assert.deepEqual(await list({ topic: 'gadgets' }), { outcome: 'ok', events: [], hasMore: false });
  });
});

describe('delete_delayed', () => {
  test('deletes an event that waits, once', async () => {
    await bus.delay('a', 'widgets', some(3));
    assert.equal(await remove('e1', 'shop'), 'ok');
    assert.deepEqual(await ids(), ['e0', 'e2']);
    assert.equal(await remove('e1'), 'delayed_event_not_found');
    for (const id of ['e0', 'e2']) assert.equal(await remove(id), 'ok');
    assert.deepEqual(await redis.store.redis.keys('delayed:*'), []);
  });

  test('is for the publisher of the topic, and for root', async () => {
    await bus.delay('a', 'widgets', some(1));
    assert.equal(await remove('e0', 'mill'), 'forbidden');
    assert.deepEqual(await ids(), ['e0']);
    await redis.flush();
    assert.equal(await remove('e0'), 'topic_not_found');
  });
});

test('a topic that is deleted takes its delayed events along, and says how many', async () => {
  await bus.delay('a', 'widgets', some(5));
  await bus.delay('b', 'gadgets', some(2));
  const removed = await redis.store.run('remove_topic', { topic: 'widgets', series: [] });
  assert.deepEqual(removed, { outcome: 'ok', delayed: 5, subscriptions: 0, partitions: [] });
  assert.deepEqual(Object.keys(await readDelayed(redis.store)), ['gadgets']);
});

describe('drop_delayed', () => {
  test('drops those that are due last, and notes them for the publisher', async () => {
    await bus.delay('a', 'widgets', some(9));
    await bus.delay('b', 'gadgets', some(2));
    const drop = (topic: string, maxDeleted: number) =>
      redis.store.run('drop_delayed', { orders: [{ topic, maxDeleted }] });
    assert.deepEqual(await drop('widgets', 4), [{ topic: 'widgets', events: 4 }]);
    assert.deepEqual(await ids(), ['e0', 'e1', 'e2', 'e3', 'e4']);
    assert.deepEqual(await drop('widgets', 9), [{ topic: 'widgets', events: 5 }]);
    assert.deepEqual(await drop('widgets', 9), []);
    assert.deepEqual(await redis.store.redis.hgetall('topic:widgets'), {
      publisher: 'shop',
      delayed: '9',
      dropped_events: '9',
      dropped_from: String(at),
      dropped_to: String(at + 2),
    });
    assert.deepEqual(await ids('gadgets'), ['e0', 'e1']);
  });
});
