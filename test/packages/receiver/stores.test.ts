import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { TestStore } from '../../../harness/redis/store.ts';
import { until } from '../../../harness/until.ts';
import {
  DirtyMap,
  MemoryDirtyStore,
  MemoryNewestStore,
  MemoryStore,
  onlyNewest,
  type ReceivedEvent,
  RedisDirtyStore,
  RedisNewestStore,
  RedisStore,
} from '../../../packages/receiver/src/index.ts';

const redis = new TestStore();
const send = (...command: [string, ...string[]]) => redis.store.redis.call(...command);
const DELIVERY = { id: 'batch', attempt: 1 };

const event = (url: string, t: number): ReceivedEvent => ({
  id: `${url}@${t}`,
  topic: 'orders',
  type: 'update',
  url,
  t,
});

for (const [kind, open] of [
  ['memory', (claimMs?: number) => new MemoryStore({ rememberMs: claimMs ?? 60_000 })],
  ['Redis', (claimMs?: number) => new RedisStore(send, claimMs === undefined ? {} : { claimMs })],
] as const) {
  describe(`a store of deliveries in ${kind}`, () => {
    test('gives a delivery to one caller, until it is released or for ever', async () => {
      const store = open();
      const claims = await Promise.all(Array.from({ length: 20 }, () => store.claim(`${kind}-a`)));
      assert.deepEqual(claims.toSorted(), [...Array(19).fill('busy'), 'claimed']);
      await store.release(`${kind}-a`);
      assert.equal(await store.claim(`${kind}-a`), 'claimed');
      await store.confirm(`${kind}-a`);
      assert.equal(await store.claim(`${kind}-a`), 'handled');
      await redis.flush();
    });
  });
}

test('a claim in Redis ends by itself, and a late release does not undo what was confirmed', async () => {
  const store = new RedisStore(send, { claimMs: 20 });
  assert.equal(await store.claim('b'), 'claimed');
  await until(async () => (await store.claim('b')) === 'claimed');
  await store.confirm('b');
  await store.release('b');
  assert.equal(await store.claim('b'), 'handled');
  await redis.flush();
});

test('a store in memory keeps a bounded number of deliveries, and no claim is lost', async () => {
  const store = new MemoryStore({ max: 3 });
  assert.equal(await store.claim('held'), 'claimed');
  for (const id of ['1', '2', '3', '4']) {
    await store.claim(id);
    await store.confirm(id);
  }
  assert.equal(await store.claim('held'), 'busy');
  assert.equal(await store.claim('4'), 'handled');
  assert.equal(await store.claim('1'), 'claimed');
});

for (const [kind, store] of [
  ['memory', new MemoryNewestStore()],
  ['Redis', new RedisNewestStore(send, { prefix: 'search:' })],
] as const) {
  describe(`only the newest event of a URL, remembered in ${kind}`, () => {
    test('passes on what is newer than all before', async () => {
      const seen: string[] = [];
      const handler = onlyNewest(store, (events) => void seen.push(...events.map(({ id }) => id)));
      await handler([event('a', 10), event('b', 5), event('a', 12), event('a', 11)], DELIVERY);
      assert.deepEqual(seen.splice(0), ['b@5', 'a@12'], 'in their order');
      await handler([event('a', 12), event('b', 6), event('b', 4)], DELIVERY);
      assert.deepEqual(seen.splice(0), ['b@6']);
      // A handler around this one may pass on only some of its events, or none.
      await handler([], DELIVERY);
      assert.deepEqual(seen, []);
      await redis.flush();
    });

    test('forgets nothing that failed', async () => {
      let calls = 0;
      const throwing = onlyNewest(store, () => {
        calls++;
        throw new Error('not now');
      });
      await assert.rejects(async () => throwing([event('c', 1)], DELIVERY), /not now/);
      await assert.rejects(async () => throwing([event('c', 1)], DELIVERY), /not now/);
      assert.equal(calls, 2);
      const partly = onlyNewest(store, () => ({ failed: ['c@1'] }));
      await partly([event('c', 1), event('d', 1)], DELIVERY);
      assert.deepEqual(await store.read(['c', 'd']), [undefined, 1]);
      await redis.flush();
    });

    test('keeps the later of two times, whoever saves last', async () => {
      await Promise.all([3, 9, 4].map((t) => store.save(new Map([['e', t]]))));
      assert.deepEqual(await store.read(['e']), [9]);
      await redis.flush();
    });
  });
}

test('two services that share a Redis get the same event, and the same dirty URL', async () => {
  const seen: string[] = [];
  for (const service of ['search', 'mailer']) {
    const newest = new RedisNewestStore(send, { prefix: `${service}:` });
    const handler = onlyNewest(newest, (events) => void seen.push(`${service} ${events.length}`));
    await handler([event('a', 10)], DELIVERY);
  }
  assert.deepEqual(seen, ['search 1', 'mailer 1']);
  const maps = ['search', 'mailer'].map((each) => new DirtyMap(new RedisDirtyStore(send, { key: each })));
  for (const map of maps) await map.handler()([event('a', 10)], DELIVERY);
  for (const map of maps) assert.equal(await map.sweep(() => {}), 1);
  await redis.flush();
});

test('a store in Redis cannot be made without a place of its own, since another service may share the Redis', () => {
  for (const options of [undefined, {}, { prefix: '' }, { key: undefined }] as never[]) {
    assert.throws(
      () => new RedisNewestStore(send, options),
      /^TypeError: give a prefix that no other handler or service has/,
    );
    assert.throws(
      () => new RedisDirtyStore(send, options),
      /^TypeError: give a key that no other map or service has/,
    );
  }
});

test('versions of dirty URLs in Redis are whole numbers, which each client of Redis reads as they are', async () => {
  const store = new RedisDirtyStore(send, { key: 'search:dirty' });
  for (const url of ['a', 'b', 'c']) await store.mark(new Map([[url, 1]]));
  const versions = (await store.some(3)).map(([, version]) => version);
  assert.ok(versions.length === 3 && versions.every(Number.isSafeInteger), String(versions));
  await redis.flush();
});

test('a store cannot be made with a number that is none, with which it would forget all', () => {
  for (const wrong of [Number.NaN, 0, -1, '2d' as unknown as number]) {
    const made = [
      () => new MemoryStore({ max: wrong }),
      () => new MemoryStore({ rememberMs: wrong }),
      () => new MemoryNewestStore({ max: wrong }),
      () => new RedisStore(send, { claimMs: wrong }),
      () => new RedisStore(send, { rememberMs: wrong }),
      () => new RedisNewestStore(send, { prefix: 'search:', rememberMs: wrong }),
    ];
    for (const make of made) assert.throws(make, /^RangeError: \w+ must be a number above 0, not \S+$/);
  }
});

test('a store in Redis says at once how it sends commands, if it gets the client of Redis itself', () => {
  const client = redis.store.redis as unknown as typeof send;
  const error = /^TypeError: give a function that sends a command: \(\.\.\.command\) => redis\.call/;
  assert.throws(() => new RedisStore(client), error);
  assert.throws(() => new RedisNewestStore(client, { prefix: 'search:' }), error);
  assert.throws(() => new RedisDirtyStore(client, { key: 'search:dirty' }), error);
});

for (const [kind, open] of [
  ['memory', () => new MemoryDirtyStore()],
  ['Redis', () => new RedisDirtyStore(send, { key: 'search:dirty' })],
] as const) {
  describe(`a map of dirty URLs in ${kind}`, () => {
    test('has one sweep at a time, so that none stores what an earlier one has read over newer data', async () => {
      const map = new DirtyMap(open());
      const mark = map.handler();
      let [source, copy] = ['old', ''];
      const held = Promise.withResolvers<void>();
      const reading = Promise.withResolvers<void>();
      await mark([event('a', 1)], DELIVERY);
      const first = map.sweep(async () => {
        const read = source;
        reading.resolve();
        await held.promise;
        copy = read;
      });
      await reading.promise;
      source = 'new';
      await mark([event('a', 2)], DELIVERY);
      let calls = 0;
      const later = [1, 2, 3].map(() =>
        map.sweep(() => {
          calls++;
          copy = source;
        }),
      );
      await turn();
      held.resolve();
      await Promise.all([first, ...later]);
      assert.deepEqual({ copy, calls, left: await map.count() }, { copy: 'new', calls: 1, left: 0 });
    });

    test('hands out each URL once, and keeps what failed', async () => {
      const map = new DirtyMap(open());
      const mark = map.handler();
      await mark([event('a', 1), event('b', 1), event('a', 2)], DELIVERY);
      assert.equal(await map.count(), 2);
      const seen: string[] = [];
      const failing = map.sweep((url) => {
        seen.push(url);
        if (url === 'b') throw new Error('no answer');
      });
      await assert.rejects(failing, /1 of 2 URLs failed/);
      assert.deepEqual(seen.toSorted(), ['a', 'b']);
      assert.equal(await map.count(), 1);
      assert.equal(await map.sweep(() => {}), 1);
      assert.equal(await map.count(), 0);
    });

    test('keeps a URL that is marked anew while it is handled', async () => {
      const map = new DirtyMap(open());
      const mark = map.handler();
      await mark([event('a', 1)], DELIVERY);
      await map.sweep(async () => {
        await mark([event('a', 2)], DELIVERY);
      });
      assert.equal(await map.count(), 1);
      await redis.flush();
    });

    test('keeps a URL whose next event has the same time or an earlier one, also if two sweep it', async () => {
      const store = open();
      const [map, other] = [new DirtyMap(store), new DirtyMap(store)];
      const mark = map.handler();
      for (const t of [1000, 0]) {
        await mark([event('a', 1000)], DELIVERY);
        await map.sweep(async () => {
          await mark([event('a', t)], DELIVERY);
        });
        assert.equal(await map.count(), 1, `after an event of ${t}`);
      }
      await map.sweep(async () => {
        await other.sweep(() => {});
        await mark([event('a', 1000)], DELIVERY);
      });
      assert.equal(await map.count(), 1);
      await redis.flush();
    });

    test('sweeps more URLs than are read at a time', async () => {
      const map = new DirtyMap(open());
      await map.handler()(
        Array.from({ length: 350 }, (_, n) => event(`u${n}`, n)),
        DELIVERY,
      );
      assert.equal(await map.sweep(() => {}), 350);
      await redis.flush();
    });
  });
}
