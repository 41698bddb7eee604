import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Timed } from '../../harness/scripts/bus_inputs.ts';
import { readDelayed } from '../../harness/scripts/delayed.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { StorageForbidden, StorageFull } from '../../src/errors.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;

const event = (id: string, dueInMs = 0): Timed => ({ id, delay: HOUR_MS + dueInMs });
const events = (n: number, name = 'e') => Array.from({ length: n }, (_, i) => event(`${name}${i}`));
/** Makes all delayed events due. */
async function hasten(): Promise<void> {
  for (const topic of await redis.store.redis.zrange('delayed:topics', '0', '-1'))
    await bus.hasten(topic, 2 * HOUR_MS);
}
const delivered = async () =>
  Object.values((await bus.state()).batches)
    .filter(({ token }) => token === 'alice')
    .flatMap((batch) => batch.events);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('what is due', () => {
  test('stays if the ACL of Redis forbids a command that some subscriber needs', async () => {
    await bus.subscribe('alice');
    await bus.subscribe('bob');
    await bus.publish('a', 'widgets', ['now']);
    await bus.delay('b', 'widgets', events(2));
    await hasten();
    const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
    await permit('-llen');
    await assert.rejects(bus.publishDelayed('c'), StorageForbidden);
    await permit('+llen');
    assert.deepEqual((await bus.publishDelayed('c')).published, { widgets: 2 });
    assert.deepEqual(await delivered(), ['now', 'e0', 'e1']);
  });

  for (const command of ['hmget', 'scard', 'hlen', 'zrange'])
    test(`stays due if the ACL of Redis forbids ${command}`, async () => {
      await bus.subscribe('alice');
      await bus.delay('a', 'widgets', [event('e1')]);
      await hasten();
      const permit = (rule: string) => redis.store.redis.acl('SETUSER', 'default', rule);
      await permit(`-${command}`);
      await assert.rejects(bus.publishDelayed('b'), StorageForbidden);
      await permit(`+${command}`);
      assert.deepEqual((await bus.publishDelayed('c')).published, { widgets: 1 });
    });

  for (const name of ['topic', 'topic_subscribers', 'delayed_due', 'delayed_events'] as const)
    test(`does not wait for a topic whose key ${name} another program has written`, async () => {
      await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
      await bus.delay('a', 'widgets', [event('e1')]);
      await bus.delay('b', 'gadgets', [event('e2', 1000)]);
      await hasten();
      const { redis: commands, keys } = redis.store;
      const key = keys[name]('widgets');
      await commands.rename(key, 'kept');
      await commands.set(key, 'x');
      for (const seed of ['c', 'd', 'e']) await bus.publishDelayed(seed).catch(() => {});
      assert.deepEqual(await delivered(), ['e2']);
      await commands.rename('kept', key);
      await sweep(redis.store);
      await bus.publishDelayed('f');
      assert.deepEqual((await delivered()).sort(), ['e1', 'e2']);
    });

  test('is published once, although another program has written what its client holds', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
    await bus.delay('a', 'widgets', [event('e1')]);
    await bus.delay('b', 'gadgets', [event('e2', 1000)]);
    await hasten();
    const { redis: commands, keys } = redis.store;
    await commands.del(keys.delayed_held('shop'));
    await commands.set(keys.delayed_held('shop'), 'x');
    assert.deepEqual((await bus.publishDelayed('c')).published, { widgets: 1, gadgets: 1 });
    assert.deepEqual((await bus.publishDelayed('d')).published, {});
    assert.deepEqual(await delivered(), ['e1', 'e2']);
    await assert.rejects(sweep(redis.store), /WRONGTYPE/);
    await commands.del(keys.delayed_held('shop'));
    await sweep(redis.store);
  });

  test('is published to those who are subscribed then, and counted as a publish', async () => {
    await bus.delay('a', 'widgets', [event('e1'), event('e2'), event('later', 3 * HOUR_MS)]);
    await bus.subscribe('alice');
    await hasten();
    const { published, lost, isLeft } = await bus.publishDelayed('b');
    assert.deepEqual([published, lost, isLeft], [{ widgets: 2 }, [], false]);
    assert.deepEqual((await bus.state()).batches.b1, { token: 'alice', attempts: 0, events: ['e1', 'e2'] });
    assert.equal(await redis.store.redis.hget('topic:widgets', 'counter'), '2');
    assert.deepEqual(
      (await readDelayed(redis.store)).widgets?.map(({ id }) => id),
      ['later'],
    );
  });

  test('is told with its bytes, its subscribers, and how late it is', async () => {
    await bus.subscribe('alice');
    await bus.subscribe('bob');
    await bus.delay('a', 'widgets', [{ ...event('e1'), text: 'twelve bytes' }]);
    await bus.hasten('widgets', HOUR_MS + 1000);
    const reply = await redis.store.run('publish_delayed', {
      uidSeed: 'b'.padEnd(16, '-'),
      firstClient: 0,
      maxOutboxBytes: 1000,
    });
    const [{ lateMs: [lateMs = 0] = [], subscribers, ...rest } = assert.fail()] = reply.published;
    assert.deepEqual(rest, { topic: 'widgets', events: 1, bytes: 12 });
    assert.deepEqual(subscribers.split('\n').sort(), ['alice', 'bob']);
    assert.ok(lateMs >= 1000 && lateMs < 31_000, `${lateMs}`);
  });

  test('is published though nobody is subscribed', async () => {
    await bus.delay('a', 'widgets', [event('e1')]);
    await hasten();
    assert.deepEqual((await bus.publishDelayed('b')).published, { widgets: 1 });
    assert.equal(await redis.store.redis.hget('topic:widgets', 'counter'), '1');
  });

  test('leaves nothing behind', async () => {
    await bus.subscribe('alice');
    await bus.delay('a', 'widgets', events(50));
    await hasten();
    await bus.publishDelayed('b');
    const { redis: commands } = redis.store;
    assert.deepEqual(await commands.keys('delayed:*'), []);
  });

  test('is not published before its time', async () => {
    await bus.delay('a', 'widgets', [event('e1')]);
    const before = await snapshot(redis.store);
    assert.deepEqual(await bus.publishDelayed('b'), { published: {}, lost: [], isLeft: false });
    assert.deepEqual(await snapshot(redis.store), before);
  });

  test('comes in the order of its time over all topics, and of acceptance where that is the same', async () => {
    const topics = Array.from({ length: 40 }, (_, i) => `topic_${i}`);
    await bus.subscribe('alice', { topics, max: 10_000 });
    const expected: [dueMs: number, id: string][] = [];
    const at = (await bus.nowMs()) + HOUR_MS;
    for (const [t, topic] of topics.entries()) {
      const own = Array.from({ length: 30 }, (_, n) => ({
        id: `${t}-${n}`,
        at: at + ((n * 7919 + t * 31) % 50),
      }));
      await bus.delay('a', topic, own);
      expected.push(...own.map(({ id, at: due }): [number, string] => [due, id]));
    }
    await hasten();
    let calls = 0;
    for (let isLeft = true; isLeft; calls++)
      ({ isLeft } = await bus.publishDelayed(`c${'abcdefgh'[calls % 8]}`));
    assert.ok(calls > 1, 'several calls');
    const ids = await delivered();
    assert.equal(ids.length, expected.length);
    const dueOf = new Map(expected.map(([due, id]) => [id, due]));
    const due = ids.map((id) => dueOf.get(id) ?? 0);
    assert.deepEqual(
      due,
      [...due].sort((one, other) => one - other),
    );
    for (const [t] of topics.entries()) {
      const own = ids.filter((id) => id.startsWith(`${t}-`));
      const sorted = expected
        .filter(([, id]) => id.startsWith(`${t}-`))
        .sort(([one], [other]) => one - other);
      assert.deepEqual(
        own,
        sorted.map(([, id]) => id),
      );
    }
  });
});

describe('a call', () => {
  test('publishes some of many, and says that more is due', async () => {
    await bus.subscribe('alice', { max: 10_000 });
    await bus.delay('a', 'widgets', events(1000));
    await hasten();
    const first = await bus.publishDelayed('b');
    const [count = 0] = Object.values(first.published);
    assert.ok(first.isLeft && count > 100 && count < 600, `${count}`);
    while ((await bus.publishDelayed('c')).isLeft);
    assert.deepEqual(
      await delivered(),
      events(1000).map(({ id }) => id),
    );
  });

  test('publishes the fewer the more subscribers there are, and one at least', async () => {
    for (let i = 0; i < 300; i++) await bus.subscribe(`s${i}`);
    await bus.delay('a', 'widgets', events(100));
    await hasten();
    const [count = 0] = Object.values((await bus.publishDelayed('b')).published);
    assert.ok(count >= 1 && count < 40, `${count}`);
  });

  test('publishes the fewer the more topics they are of', async () => {
    for (let i = 0; i < 200; i++)
      await bus.delay('a', `topic_${i}`, [event(`a${i}`, i), event(`b${i}`, 1000)]);
    await hasten();
    const { published, isLeft } = await bus.publishDelayed('b');
    const count = Object.keys(published).length;
    assert.ok(isLeft && count >= 20 && count < 80, `${count} topics`);
  });

  test('publishes the fewer the larger they are', async () => {
    await bus.subscribe('alice');
    const large = events(40).map((each) => ({ ...each, text: 'x'.repeat(64_000) }));
    await bus.delay('a', 'widgets', large);
    await hasten();
    const [count = 0] = Object.values((await bus.publishDelayed('b')).published);
    assert.ok(count >= 1 && count < 30, `${count}`);
  });

  test('made by many at once publishes each event once', async (t) => {
    await bus.subscribe('alice', { max: 10_000 });
    await bus.delay('a', 'widgets', events(900));
    await hasten();
    const stores = await Promise.all(Array.from({ length: 5 }, () => openStore(redis.redis.url)));
    for (const store of stores) t.after(() => store.redis.disconnect());
    const publish = async (other: Bus, seed: string) => {
      while ((await other.publishDelayed(seed)).isLeft);
    };
    await Promise.all(stores.map((store, index) => publish(new Bus(() => store), 'bcdef'[index] ?? '')));
    assert.deepEqual(
      await delivered(),
      events(900).map(({ id }) => id),
    );
  });

  test('is refused while Redis has no memory left, and the events wait', async () => {
    await bus.subscribe('alice');
    await bus.delay('a', 'widgets', events(3));
    await hasten();
    await redis.store.redis.config('SET', 'maxmemory', '1');
    await assert.rejects(bus.publishDelayed('b'), StorageFull);
    await redis.store.redis.config('SET', 'maxmemory', '0');
    assert.equal((await readDelayed(redis.store)).widgets?.length, 3);
    assert.deepEqual((await bus.publishDelayed('b')).published, { widgets: 3 });
  });
});

describe('clients take turns', () => {
  /** Publishes until an event of `topic` is published. Returns the number of calls. */
  async function callsUntil(topic: string): Promise<number> {
    for (let turn = 0; turn < 100; turn++) {
      const { published } = await bus.publishDelayed(nthWord(turn), turn);
      if (published[topic] !== undefined) return turn + 1;
    }
    return assert.fail(`${topic} was not published`);
  }
  const delay = (client: string, topic: string, all: Timed[]) => bus.delay('a', topic, all, { client });

  test('so a burst of one, which takes many calls, does not keep another waiting', async () => {
    for (let i = 0; i < 60; i++) await bus.subscribe(`s${i}`, { topics: ['burst'] });
    await bus.subscribe('alice', { topics: ['burst', 'quiet'], max: 10_000 });
    await delay('mallory', 'burst', events(2000));
    await delay('carol', 'quiet', [event('late', 1), event('later', 2)]);
    await hasten();
    assert.equal(await callsUntil('quiet'), 1);
    let turn = 1;
    while ((await bus.publishDelayed(nthWord(turn), turn)).isLeft) turn++;
    assert.ok(turn > 10, `${turn} calls`);
    const ids = await delivered();
    assert.deepEqual(
      ids.filter((id) => id.startsWith('e')),
      events(2000).map(({ id }) => id),
    );
    assert.ok(ids.indexOf('late') < ids.indexOf('later') && ids.indexOf('later') < 200);
  });

  test('however many topics and subscribers it has, and however many clients have a burst', async () => {
    for (let i = 0; i < 250; i++) await bus.subscribe(`s${i}`, { topics: ['wide_0', 'wide_1'] });
    for (let i = 0; i < 300; i++) await delay('mallory', `many_${i}`, [event(`m${i}`)]);
    for (let i = 0; i < 2; i++) await delay(`wide${i}`, `wide_${i}`, events(200, `w${i}-`));
    for (let i = 0; i < 20; i++) await delay(`other${i}`, `other_${i}`, events(300, `o${i}-`));
    await delay('carol', 'quiet', [event('late', 1)]);
    await hasten();
    const calls = await callsUntil('quiet');
    assert.ok(calls <= 24, `${calls} calls`);
    for (const topic of ['wide_0', 'wide_1'])
      assert.equal(await redis.store.redis.hexists(redis.store.keys.topic(topic), 'counter'), 1);
  });

  test('also if two of them have 900 due topics each', async () => {
    for (const client of ['mallory', 'oscar'])
      await Promise.all(Array.from({ length: 900 }, (_, i) => delay(client, `${client}_${i}`, [event('e')])));
    await delay('carol', 'quiet', [event('late', 1)]);
    await hasten();
    assert.equal(await callsUntil('quiet'), 1);
  });

  test('and the events of all come in the order of their time if one call has room for them', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], max: 100 });
    // The gaps are long, because the delays of the second call begin a little later.
    await delay('mallory', 'widgets', [event('e1', 100_000), event('e3', 300_000), event('e5', 500_000)]);
    await delay('carol', 'gadgets', [event('e2', 200_000), event('e4', 400_000)]);
    await hasten();
    await bus.publishDelayed('b');
    assert.deepEqual(await delivered(), ['e1', 'e2', 'e3', 'e4', 'e5']);
  });
});

describe('damage', () => {
  test('of a text loses that event, which is told, and holds up no other', async () => {
    await bus.delay('a', 'widgets', events(3));
    await redis.store.redis.hdel('delayed:events:widgets', 'e1');
    await hasten();
    const { published, lost } = await bus.publishDelayed('b');
    assert.deepEqual([published, lost], [{ widgets: 2 }, [{ topic: 'widgets', id: 'e1' }]]);
    await redis.store.run('sweep_delayed_held', { tokens: ['shop'] });
  });

  test('of all due texts of a topic does not publish the events of others twice', async () => {
    await bus.subscribe('alice', { topics: ['gadgets'] });
    await bus.delay('a', 'widgets', [event('e1'), event('later', 3 * HOUR_MS)]);
    await bus.delay('b', 'gadgets', [event('e2', 1)]);
    await redis.store.redis.hdel('delayed:events:widgets', 'e1');
    await hasten();
    const { published, lost } = await bus.publishDelayed('c');
    assert.deepEqual([published, lost], [{ gadgets: 1 }, [{ topic: 'widgets', id: 'e1' }]]);
    await bus.publishDelayed('d');
    assert.deepEqual(await delivered(), ['e2']);
    await sweep(redis.store);
  });

  test('of a topic holds up no other, and is told', async () => {
    await bus.subscribe('alice', { topics: ['gadgets'] });
    await bus.delay('a', 'widgets', [event('e1')]);
    await bus.delay('b', 'gadgets', [event('e2', 1)]);
    await hasten();
    await redis.store.redis.del('delayed:due:widgets');
    await redis.store.redis.set('delayed:due:widgets', 'not a sorted set');
    await assert.rejects(bus.publishDelayed('c'), /WRONGTYPE/);
    assert.deepEqual(await delivered(), ['e2']);
    assert.deepEqual(await bus.publishDelayed('d'), { published: {}, lost: [], isLeft: false });
    await redis.flush();
  });

  test('of a subscriber is told, and the others get the events once', async () => {
    for (const token of ['alice', 'bob', 'carol']) await bus.subscribe(token);
    await bus.delay('a', 'widgets', events(2));
    await hasten();
    await redis.store.redis.set('batches:index:bob', 'not a sorted set');
    await assert.rejects(bus.publishDelayed('b'), /WRONGTYPE/);
    await redis.store.redis.del('batches:index:bob');
    const { batches } = await bus.state();
    const got = Object.values(batches).filter(({ token }) => token !== 'bob');
    assert.deepEqual(
      got.map(({ events: own }) => own),
      [
        ['e0', 'e1'],
        ['e0', 'e1'],
      ],
    );
    assert.deepEqual(await readDelayed(redis.store), {});
    await redis.flush();
  });
});
