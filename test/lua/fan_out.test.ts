import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('many at once', () => {
  const MANY = 4100;
  const events = Array.from({ length: MANY }, (_, i) => `e${i}`);

  test('subscribers: more than one call of Lua’s unpack takes', async () => {
    const { redis: commands, keys } = bus.store;
    const write = commands.pipeline();
    for (let n = 0; n < MANY; n++) {
      write.sadd(keys.topic_subscribers('widgets'), `s${n}`);
      write.hset(keys.subscriber(`s${n}`), { callback: 'https://s.example/', max_events: n % 3 ? 100 : 3 });
    }
    await write.exec();
    await bus.publish('a', 'widgets', ['e1']);
    const { added } = await bus.publishAll('b', ['widgets', 'shop', ['e2', 'e3']]);
    assert.equal(Object.keys(added).length, MANY);
    const { batches, current, gauges, main } = await bus.state();
    const lists = Object.values(batches);
    assert.equal(lists.length, MANY);
    assert.ok(lists.every(({ events }) => events.join() === 'e1,e2,e3'));
    assert.ok(Object.values(gauges.events).every((events) => events === 3));
    assert.deepEqual(gauges.batches, Object.fromEntries(lists.map(({ token }) => [token, 1])));
    const full = Math.ceil(MANY / 3);
    assert.deepEqual([main.instant.length, main.scheduled.length], [full, MANY - full]);
    assert.equal(Object.keys(current).length, MANY - full);
    assert.equal(await commands.hlen(keys.batches_open()), MANY - full);
    await redis.flush();
  });

  test('subscribers: each job enters the queue once, although another program has written the gauge of batches', async () => {
    const { redis: commands, keys } = bus.store;
    const write = commands.pipeline();
    for (let n = 0; n < MANY; n++) {
      write.sadd(keys.topic_subscribers('widgets'), `s${n}`);
      write.hset(keys.subscriber(`s${n}`), { callback: 'https://s.example/', max_events: 1 });
    }
    await write.exec();
    await commands.set(keys.gauge_batches(), 'x');
    await assert.rejects(bus.publish('a', 'widgets', ['e1']), /WRONGTYPE/);
    assert.equal(await commands.llen(keys.jobs_instant('main')), MANY);
    await redis.flush();
  });

  test('events of one subscriber, in their order: one long batch, of which each delivery takes what it may', async () => {
    await bus.subscribe('alice', { max: 1, ordered: 1 });
    await bus.publish('a', 'widgets', events);
    const { queued, batches, main } = await bus.state();
    assert.deepEqual(
      queued.alice?.flatMap((name) => batches[name]?.events),
      events,
    );
    assert.deepEqual(main.instant, ['a1']);
    await redis.flush();
  });

  test('reads the settings of all subscribers of a topic with one command each', async () => {
    for (let n = 0; n < 20; n++) await bus.subscribe(`s${n}`);
    await bus.publish('a', 'widgets', ['e1']);
    const { redis: commands, keys } = bus.store;
    for (const hash of [keys.batches_open(), keys.gauge_events(), keys.gauge_batches()]) {
      assert.equal(await commands.object('ENCODING', hash), 'hashtable');
      assert.equal(await commands.hlen(hash), 20);
    }
  });
});

test('a publish that fails at one subscriber leaves the batches of the others whole, and they get the event', async () => {
  const tokens = Array.from({ length: 20 }, (_, n) => `s${n}`);
  for (const token of tokens) await bus.subscribe(token, { max: 2 });
  await bus.publish('a', 'widgets', ['e1']);
  for (const token of tokens.slice(10)) await bus.subscribe(token, { max: 1 });
  const { redis: commands, keys } = bus.store;
  await commands.set(keys.subscriber('s15'), 'no hash');
  await assert.rejects(bus.publish('b', 'widgets', ['e2']), /WRONGTYPE/);
  await commands.del(keys.subscriber('s15'));
  await bus.subscribe('s15', { max: 1 });
  const { gauges } = await bus.state();
  const events = Object.values(gauges.events).reduce((sum, each) => sum + each);
  assert.equal(events, 20 + 19);
});
