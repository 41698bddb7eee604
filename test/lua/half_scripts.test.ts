import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { write, writesOf } from '../../harness/redis/append_only_file.ts';
import { RUBY_TOKEN, writeRubyRedis } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published } from '../../harness/scripts/bus_inputs.ts';
import { beginBus } from '../../harness/scripts/crossing.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { JoinCalls, joinEvent, type Rules } from '../../harness/scripts/join_calls.ts';
import { packNamed, seedOf } from '../../harness/scripts/names.ts';
import { type Firing, fireTriggers, putTrigger } from '../../harness/scripts/triggers.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage } from '../../src/maintenance/schema.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore({ appendonly: 'yes', appendfsync: 'no' });
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);

async function fill(): Promise<void> {
  await redis.flush();
  await beginBus(new Partitions(redis.store));
  await bus.subscribe('alice', { topics: ['widgets', 'gadgets'] });
  await bus.subscribe('bob', { topics: ['widgets'] });
  await bus.publish('a', 'widgets', ['e1']);
}

beforeEach(fill);
afterEach(() => assertConsistent(redis.store));

// A Redis that is killed while it writes its AOF may have the first writes of a script when it is back.
for (const [what, call] of [
  ['a publish to a new topic', () => bus.publish('b', 'gizmos', ['e2'])],
  ['a subscription to other topics', () => bus.subscribe('alice', { topics: ['gizmos'] })],
  [
    'the end of a subscription',
    () => bus.store.run('unsubscribe', { token: 'alice', topic: 'gadgets', isForeign: false }),
  ],
  ['the removal of a subscriber', () => bus.store.run('remove_subscriber', { token: 'alice', series: [] })],
] as const)
  test(`${what} of which Redis kept the first writes is completed by its repeat`, async () => {
    const writes = await writesOf(redis.redis, call);
    assert.ok(writes.length > 1);
    for (let kept = 1; kept < writes.length; kept++) {
      await fill();
      await write(redis.store, writes.slice(0, kept));
      await call();
      await sweep(redis.store);
      await assertConsistent(redis.store);
    }
  });

test('a takeover of which Redis kept the first writes is completed by the next start', async () => {
  const { redis: commands, keys } = redis.store;
  const ofRuby = async () => {
    await redis.flush();
    await writeRubyRedis(commands);
  };
  const takeOver = () => prepareStorage(redis.store, 30_000, createLog('silent', {}));
  await ofRuby();
  const writes = await writesOf(redis.redis, takeOver);
  for (let kept = 1; kept <= writes.length; kept++) {
    await ofRuby();
    await write(redis.store, writes.slice(0, kept));
    await takeOver();
    await sweep(redis.store);
    await assertConsistent(redis.store);
    assert.equal(await commands.exists(keys.schema(), keys.taken_over()), 2, `${kept} writes were kept`);
    assert.equal(await commands.exists(keys.jobs_index('aux'), keys.jobs_instant('aux')), 0);
    assert.deepEqual((await bus.state()).gauges, {
      batches: { [RUBY_TOKEN]: 3 },
      events: { [RUBY_TOKEN]: 4 },
    });
  }
});

for (const [what, call] of [
  ['retired', () => bus.store.run('retire', { q: 'main', workers: ['w1'] })],
  ['was scrubbed', () => bus.scrub(-1)],
  ['was condemned', () => bus.condemn('w1')],
] as const)
  test(`a worker that ${what} when Redis kept the first writes does not count as alive for ever`, async () => {
    const { redis: commands, keys } = redis.store;
    await bus.acquire(['w1'], { idle: 0 });
    const writes = await writesOf(redis.redis, call);
    assert.ok(writes.length > 1);
    for (let kept = 1; kept < writes.length; kept++) {
      await fill();
      await bus.acquire(['w1'], { idle: 0 });
      await write(redis.store, writes.slice(0, kept));
      await bus.scrub(-1);
      assert.deepEqual(await commands.smembers(keys.workers_main()), []);
    }
  });

describe('a join of which Redis kept the first writes of a script', () => {
  const KEYS = ['A', 'B', 'C'];
  const outlet = { topic: 'done', type: 'update' } as const;
  const publishEach = (seed: string, topic: string) =>
    bus.publishAll(
      seed,
      ...KEYS.map((key): Published => [topic, 'pub', [joinEvent(topic, key, `${topic}${key}`)]]),
    );
  const openKeys = async (rules: Omit<Rules, 'sources'>) => {
    await redis.flush();
    await bus.subscribe('office', { topics: ['done'], timeout: 600_000 });
    const sources = ['paid', 'packed'].map((topic) => ({ topic, count: 1 }));
    await joins.put('order', { sources, then: outlet, ...rules });
    await publishEach('a', 'paid');
    await joins.work('order');
  };
  /** Fails unless the join's subscriber has an event with these sources for each key. No two keys may share an id. */
  const assertAllPublished = async (sources: string[]) => {
    const { batches, queued } = await bus.state();
    const texts = (queued.office ?? []).flatMap((name) => batches[name]?.events ?? []);
    const events = texts.map((text) => JSON.parse(text) as { id: string; data: { events: string[] } });
    const found = new Set(events.map(({ data }) => data.events.join()));
    assert.deepEqual([...found].sort(), KEYS.map((key) => sources.map((topic) => topic + key).join()).sort());
    const keyOf = new Map(events.map(({ id, data }) => [id, data.events.join()]));
    for (const { id, data } of events) assert.equal(keyOf.get(id), data.events.join());
  };

  test('publishes all the same for each key that was complete', async () => {
    const prepare = async () => {
      await openKeys({ within: 600_000 });
      await publishEach('b', 'packed');
      await bus.acquire(['w1']);
    };
    await prepare();
    const writes = await writesOf(redis.redis, () => joins.count('order', 'w1', 'b1'));
    for (let kept = 1; kept < writes.length; kept++) {
      await prepare();
      await write(redis.store, writes.slice(0, kept));
      await bus.scrub(-1);
      await sweep(redis.store);
      if ((await bus.acquire(['w2'])).grants.length > 0) await joins.count('order', 'w2', 'b1');
      await assertAllPublished(['paid', 'packed']);
    }
  });

  test('publishes all the same for each key that expired', async () => {
    const prepare = () => openKeys({ within: 0, on_expiry: outlet });
    await prepare();
    const writes = await writesOf(redis.redis, () => joins.expire('order'));
    for (let kept = 1; kept < writes.length; kept++) {
      await prepare();
      await write(redis.store, writes.slice(0, kept));
      await sweep(redis.store);
      await joins.expire('order');
      await assertAllPublished(['paid']);
    }
  });
});

describe('a script that publishes what waits, and of which Redis kept the first writes, is completed by its repeat:', () => {
  const LIMITS = { maxTopics: 100, maxClientTopics: 100 };
  const PAST = 1_700_000_000_000;
  let entries: Buffer[] = [];
  let firings: Firing[] = [];
  const texts = async () => {
    const { batches } = await bus.state();
    return Object.values(batches).flatMap(({ token, events }) => events.map((text) => `${token} ${text}`));
  };

  for (const [what, prepare, call, expected] of [
    [
      'apply_outbox',
      async () => {
        const { redis: commands, keys } = redis.store;
        await commands.hset(keys.topic('gadgets'), { publisher: 'shop', elsewhere: '1:1:1' });
        await bus.publish('b', 'gadgets', ['e2']);
        entries = await commands.lrangeBuffer(keys.outbox(), 0, -1);
        await fill();
      },
      () =>
        bus.store.run('apply_outbox', {
          ...{ ...LIMITS, maxOutboxBytes: undefined, uidSeed: seedOf('c') },
          sources: [{ source: '1', entries }],
        }),
      (text: string) => text === 'alice e2',
    ],
    [
      'publish_delayed',
      async () => {
        await bus.delay('b', 'widgets', [{ id: 'e2', delay: 1000 }]);
        await bus.delay('b', 'gadgets', [{ id: 'e3', delay: 1000 }]);
        for (const topic of ['widgets', 'gadgets']) await bus.hasten(topic, 2000);
      },
      () => bus.publishDelayed('c'),
      (text: string) => /e[23]$/.test(text),
    ],
    [
      'fire_triggers',
      async () => {
        for (const topic of ['widgets', 'gadgets'])
          await putTrigger(bus.store, topic, { topic, nextAt: PAST, revision: topic });
        firings = ['widgets', 'gadgets'].map((name) => ({
          ...{ client: 'shop', name, revision: name, dueAt: PAST, times: [PAST], missed: 0 },
          nextAt: undefined,
        }));
      },
      () => fireTriggers(bus.store, 'c', firings),
      (text: string) => text.includes('@'),
    ],
  ] as const)
    test(what, async () => {
      await prepare();
      const writes = await writesOf(redis.redis, call);
      const found = (await texts()).filter(expected);
      assert.ok(found.length > 0);
      for (let kept = 1; kept < writes.length; kept++) {
        await fill();
        await prepare();
        await write(redis.store, writes.slice(0, kept));
        await call();
        await sweep(redis.store);
        await assertConsistent(redis.store);
        assert.deepEqual(new Set((await texts()).filter(expected)), new Set(found), `${kept} writes`);
      }
    });
});

describe('a bulk of which Redis kept the first writes of a step', () => {
  const step = { owner: 'root', id: 'x', listIndex: 0, token: 'alice', max: 1 };
  const begin = async (act: 'retry' | 'purge') => {
    await fill();
    await bus.publish('b', 'gadgets', Array<string>(200).fill('e'));
    await buryAll(redis.store);
    const [job, run] = [packNamed('count'), packNamed('run')];
    const filter = { reason: undefined, fromMs: undefined, untilMs: undefined };
    await bus.store.run('begin_bulk', {
      ...{ ...filter, owner: 'root', id: 'x', act, job, queues: '["alice","bob"]', listLength: 2 },
    });
    return () => bus.store.run('confirm_bulk', { owner: 'root', id: 'x', job: run });
  };
  const record = () => redis.store.redis.hgetall(redis.store.keys.bulk('root'));
  /** Makes all steps that are left, as a worker does, and returns the counts of the bulk. */
  const goOn = async (run: (at: typeof step) => Promise<'going' | 'next' | 'over' | 'lost'>) => {
    for (let state = 'going'; state !== 'over'; ) {
      const queue = Number((await record()).queue);
      state = await run({ ...step, listIndex: queue, token: ['alice', 'bob'][queue] as string });
      assert.notEqual(state, 'lost');
    }
    return record();
  };
  const count = (at: typeof step) => bus.store.run('count_bulk', at);
  const handle = {
    retry: async (at: typeof step) => (await bus.store.run('retry_bulk', at)).state,
    purge: (at: typeof step) => bus.store.run('purge_bulk', { ...at, deliveryLog: 10 }),
  };

  test('counts each letter once', async () => {
    await begin('retry');
    const letters = Number(await redis.store.redis.zcard(redis.store.keys.dead_letters_index()));
    for (let steps = 0; ; steps++) {
      const prepare = async () => {
        await begin('retry');
        for (let n = 0; n < steps; n++) {
          const queue = Number((await record()).queue);
          await count({ ...step, listIndex: queue, token: ['alice', 'bob'][queue] as string });
        }
      };
      await prepare();
      const queue = Number((await record()).queue);
      const next = { ...step, listIndex: queue, token: ['alice', 'bob'][queue] as string };
      let state = '';
      const writes = await writesOf(redis.redis, async () => {
        state = await count(next);
      });
      for (let kept = 1; kept < writes.length; kept++) {
        await prepare();
        await write(redis.store, writes.slice(0, kept));
        assert.equal((await goOn(count)).matched, String(letters));
      }
      if (state === 'over') break;
    }
  });

  for (const act of ['retry', 'purge'] as const)
    test(`leaves no letter (${act})`, async () => {
      const prepare = async () => {
        const confirm = await begin(act);
        await goOn(count);
        await confirm();
      };
      await prepare();
      const writes = await writesOf(redis.redis, () => handle[act](step));
      for (let kept = 1; kept < writes.length; kept++) {
        await prepare();
        await write(redis.store, writes.slice(0, kept));
        await goOn(handle[act]);
        await sweep(redis.store);
        await assertConsistent(redis.store);
        assert.equal(await redis.store.redis.zcard(redis.store.keys.dead_letters_index()), 0);
      }
    });
});

test('the deletion of a topic of which Redis kept the first writes ends the subscriptions elsewhere too', async () => {
  const { redis: commands, keys } = redis.store;
  const mark = () => commands.hset(keys.topic('widgets'), 'elsewhere', '1:1:1');
  const remove = () => bus.store.run('remove_topic', { topic: 'widgets', client: 'shop', series: [] });
  await mark();
  const writes = await writesOf(redis.redis, remove);
  for (let kept = 1; kept < writes.length; kept++) {
    await fill();
    await mark();
    await write(redis.store, writes.slice(0, kept));
    await remove();
    const entries = await commands.lrange(keys.outbox(), 0, -1);
    assert.ok(
      entries.some((entry) => entry.includes('widgets')),
      `after ${writes.slice(0, kept).join('; ')}`,
    );
  }
  await redis.flush();
});

test('a subscriber gets no more events if it unsubscribes after a deletion of which Redis kept the first writes', async () => {
  const { redis: commands, keys } = redis.store;
  const remove = () => bus.store.run('remove_topic', { topic: 'widgets', client: 'shop', series: [] });
  const writes = await writesOf(redis.redis, remove);
  for (let kept = 1; kept < writes.length; kept++) {
    await fill();
    await write(redis.store, writes.slice(0, kept));
    await bus.store.run('unsubscribe', { token: 'alice', topic: 'widgets', isForeign: false });
    const subscribers = await commands.smembers(keys.topic_subscribers('widgets'));
    assert.ok(!subscribers.includes('alice'), `after ${writes.slice(0, kept).join('; ')}`);
  }
  await redis.flush();
});

describe('an outbox of which Redis kept the first writes of a script', () => {
  const LIMITS = { maxEntries: 100, maxBytes: 1_000_000, leaseMs: 0, worker: undefined, lease: undefined };
  type Removed = { last?: number; count: number; bytes: number };
  const removed = (entries: readonly Buffer[]): Removed => {
    const [last] = entries.slice(-1).map((entry) => Number(entry.toString('latin1', 0, 16)));
    const bytes = entries.reduce((sum, { length }) => sum + length, 0);
    return { ...(last && { last }), count: entries.length, bytes };
  };
  const readOf =
    (partition?: string) =>
    async (before: Removed, late: string[] = []) => {
      const { entries } = await bus.store.run('read_outbox', { partition, ...before, late, ...LIMITS });
      return removed(entries);
    };
  const [read, readAside] = [readOf(), readOf('1')];
  const NONE = removed([]);
  /** Fills the outbox with entries for another partition, and reads them. */
  const fillOutbox = async () => {
    await fill();
    await redis.store.redis.hset(redis.store.keys.topic('widgets'), 'elsewhere', '1:1:1');
    await bus.publish('b', 'widgets', ['e2']);
    await bus.publish('c', 'widgets', ['e3']);
    return read(NONE);
  };
  const fillAside = async () => {
    await read(await fillOutbox(), ['1']);
    return readAside(NONE);
  };

  for (const [what, prepare, remove] of [
    ['outbox', fillOutbox, read],
    ['list that is set aside', fillAside, readAside],
  ] as const)
    test(`counts no bytes when the ${what} is empty`, async () => {
      const present = await prepare();
      const writes = await writesOf(redis.redis, () => remove(present));
      for (let kept = 1; kept < writes.length; kept++) {
        await prepare();
        await write(redis.store, writes.slice(0, kept));
        assert.equal((await remove(NONE)).count, 0);
        await assertConsistent(redis.store);
      }
    });
});
