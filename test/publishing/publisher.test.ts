import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { publishingParts } from '../../harness/publishing.ts';
import { loadScripts, scriptCalls } from '../../harness/redis/script_calls.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { BusError, StorageFull, StorageUnavailable } from '../../src/errors.ts';
import type { PublishingParts } from '../../src/publishing/group_commit.ts';
import { idempotency } from '../../src/publishing/idempotency.ts';
import type { Publication } from '../../src/publishing/publication.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const recorder = {
  counted: [] as unknown[][],
  published: (...args: unknown[]) => void recorder.counted.push(['published', ...args]),
  added: (...args: unknown[]) => void recorder.counted.push(['added', ...args]),
};
const publisher = (more: Partial<PublishingParts> = {}) =>
  new Publisher(publishingParts(new Partitions(redis.store), { recorder, ...more }));
const one = (event: string, topic = 'widgets', client = 'shop'): Publication => ({
  topic,
  client,
  events: [event],
});
const queued = async (token: string) => {
  const { queued: names, batches } = await bus.state();
  return (names[token] ?? []).flatMap((name) => batches[name]?.events ?? []);
};

beforeEach(async () => {
  await redis.flush();
  await loadScripts(redis.store);
  recorder.counted = [];
  await bus.subscribe('alice', { max: 1000 });
});
afterEach(() => assertConsistent(redis.store));

describe('group commit', () => {
  test('sends the publishes of one turn of the event loop at once, and those that arrive meanwhile in the next call', async () => {
    const shared = publisher();
    const before = await scriptCalls(redis.store);
    const many = () => Array.from({ length: 250 }, (_, i) => shared.publish(one(`e${i}`)));
    const first = many();
    await new Promise(setImmediate);
    const answers = await Promise.all([...first, ...many()]);
    assert.ok(answers.every((outcome) => outcome === 'accepted'));
    assert.equal((await scriptCalls(redis.store)) - before, 2);
  });

  test('keeps the order of the calls', async () => {
    const shared = publisher();
    const events = Array.from({ length: 500 }, (_, i) => `e${i}`);
    await Promise.all(events.map((event) => shared.publish(one(event))));
    assert.deepEqual(await queued('alice'), events);
  });

  test('makes one call for a publish of several events', async () => {
    const before = await scriptCalls(redis.store);
    await publisher().publish({ ...one('e1'), events: ['e1', 'e2', 'e3'] });
    assert.equal((await scriptCalls(redis.store)) - before, 1);
    assert.deepEqual(await queued('alice'), ['e1', 'e2', 'e3']);
  });

  test('splits groups at 2,000 events or 2 MB a call', async () => {
    const shared = publisher();
    const thousand = { ...one(''), events: Array.from({ length: 1000 }, (_, i) => `${i}`) };
    let before = await scriptCalls(redis.store);
    await Promise.all([thousand, thousand, thousand].map((each) => shared.publish(each)));
    assert.equal((await scriptCalls(redis.store)) - before, 2, 'two thousand; a thousand');

    const megabyte = { ...one(''), events: ['x'.repeat(1_000_000)] };
    before = await scriptCalls(redis.store);
    await Promise.all([megabyte, megabyte, one('last')].map((each) => shared.publish(each)));
    assert.equal((await scriptCalls(redis.store)) - before, 2, '2 MB; the last');
  });

  test('puts fewer events into a call if there are many subscribers, and refuses far too many', async () => {
    const totalWaiting = Array.from({ length: 200 }, (_, i) => `s${i}`);
    for (const token of totalWaiting)
      await bus.subscribe(token, { topics: ['crowded'], timeout: 60_000, max: 10_000 });
    const shared = publisher();
    const events = (n: number) => ({
      topic: 'crowded',
      client: 'shop',
      events: Array.from({ length: n }, () => 'e'),
    });
    await shared.publish(events(1));
    const before = await scriptCalls(redis.store);
    await Promise.all([shared.publish(events(400)), shared.publish(events(400))]);
    assert.equal((await scriptCalls(redis.store)) - before, 2, '160,000 copies go in two calls');
    const tooMany = { code: 'body_too_large', message: /200 subscribers; send 1000 events at a time/ };
    await assert.rejects(shared.publish(events(1001)), tooMany);
    await assert.rejects(
      publisher().publish(events(1001)),
      tooMany,
      'one that never published to it knows, too',
    );
    assert.equal((await queued('s0')).length, 801);
  });

  test('counts long events as several copies, and refuses no single event', async () => {
    for (const token of Array.from({ length: 100 }, (_, i) => `s${i}`))
      await bus.subscribe(token, { topics: ['crowded'], timeout: 60_000, max: 10_000 });
    const long = (n: number, length = 10_000) => ({
      topic: 'crowded',
      client: 'shop',
      events: Array.from({ length: n }, () => 'x'.repeat(length)),
    });
    const tooMuch = {
      code: 'body_too_large',
      message: /100 subscribers; send 80 events of this length at a time/,
    };
    await assert.rejects(publisher().publish(long(81)), tooMuch);
    const shared = publisher();
    assert.equal(await shared.publish(long(1, 900_000)), 'accepted');
    const before = await scriptCalls(redis.store);
    await Promise.all([shared.publish(long(40)), shared.publish(long(40))]);
    assert.equal((await scriptCalls(redis.store)) - before, 2, '80 MB go in two calls');
    assert.equal((await queued('s0')).length, 81);
  });

  test('counts the subscribers again if it has not published to the topic lately', async (t) => {
    const { redis: commands, keys } = redis.store;
    const shared = publisher();
    const many = { ...one(''), events: Array.from({ length: 2000 }, () => 'e') };
    const tooMany = { code: 'body_too_large', message: /201 subscribers; send 995 events at a time/ };
    let laterMs = 0;
    t.mock.method(clock, 'monotonicMs', () => performance.now() + laterMs);
    assert.equal(await shared.publish(many), 'accepted');
    await commands.sadd(keys.topic_subscribers('widgets'), ...Array.from({ length: 200 }, (_, i) => `s${i}`));
    laterMs += 5000;
    await assert.rejects(shared.publish(many), tooMany);
    await commands.del(keys.topic_subscribers('widgets'));
    await bus.subscribe('alice', { max: 1000 });
    await assert.rejects(shared.publish(many), tooMany);
    laterMs += 5000;
    assert.equal(await shared.publish(many), 'accepted');
  });

  test('sends a publish alone if it exceeds the bounds by itself', async () => {
    const events = Array.from({ length: 10_000 }, (_, i) => `${i}`);
    const shared = publisher();
    // After a publish the publisher knows the number of subscribers, by which it sizes its calls.
    await shared.publish(one('first'));
    const all = [one('before'), { ...one(''), events }, one('after')];
    assert.deepEqual(
      await Promise.all(all.map((each) => shared.publish(each))),
      all.map(() => 'accepted'),
    );
    assert.deepEqual(await queued('alice'), ['first', 'before', ...events, 'after']);
  });
});

describe('the outcome of a publish', () => {
  test('is its own: a topic of another client is refused in the middle of a group', async () => {
    const shared = publisher();
    const answers = await Promise.all([
      shared.publish(one('e1')),
      shared.publish(one('e2', 'gadgets', 'mill')),
      shared.publish(one('e3', 'widgets', 'mill')),
      shared.publish(one('e4')),
      shared.publish(one('e5', 'gadgets', 'shop')),
    ]);
    const others = 'claimed_by_other';
    assert.deepEqual(answers, ['accepted', 'accepted', others, 'accepted', others]);
    assert.deepEqual(await queued('alice'), ['e1', 'e4']);
  });

  test('comes after the events are in Redis, and only accepted events are counted', async () => {
    await bus.subscribe('bob', { topics: ['widgets', 'gadgets'] });
    const shared = publisher();
    const two = { ...one(''), events: ['123', '45'] };
    assert.equal(await shared.publish(two), 'accepted');
    assert.deepEqual(await queued('bob'), ['123', '45']);
    assert.equal(await shared.publish(one('e', 'widgets', 'mill')), 'claimed_by_other');
    assert.deepEqual(recorder.counted[0], ['published', 'widgets', 2, 5]);
    assert.deepEqual(recorder.counted.slice(1).sort(), [
      ['added', 'alice', 2],
      ['added', 'bob', 2],
    ]);
  });

  test('counts bytes, of which a character may have several', async () => {
    await publisher().publish(one('Žlutý 鳥'));
    assert.deepEqual(recorder.counted[0], ['published', 'widgets', 1, 11]);
  });
});

describe('an idempotency key', () => {
  const keyed = (event: string, key: string, topic = 'widgets'): Publication => ({
    ...one(event, topic),
    idempotency: idempotency('shop', key, topic, event),
  });

  test('stores a publish once, however often and in however many processes it is repeated', async () => {
    const [shared, other] = [publisher(), publisher()];
    assert.equal(await shared.publish(keyed('e1', 'k')), 'accepted');
    assert.equal(await shared.publish(keyed('e1', 'k')), 'repeated');
    const answers = [shared, other].map((each) => each.publish(keyed('e1', 'k')));
    assert.deepEqual(await Promise.all(answers), ['repeated', 'repeated']);
    assert.deepEqual(await queued('alice'), ['e1']);
  });

  test('works in the middle of a group that is stored in one call', async () => {
    const shared = publisher();
    const before = await scriptCalls(redis.store);
    const answers = await Promise.all([
      shared.publish(one('e1')),
      shared.publish(keyed('e2', 'k')),
      shared.publish(one('e3')),
      shared.publish(one('e4')),
      shared.publish(keyed('e2', 'k')),
      shared.publish(keyed('e5', 'k')),
      shared.publish(keyed('e6', 'l')),
      shared.publish(one('e7')),
    ]);
    assert.equal((await scriptCalls(redis.store)) - before, 1);
    const [ok, again, reused] = ['accepted', 'repeated', 'key_reused'];
    assert.deepEqual(answers, [ok, ok, ok, ok, again, reused, ok, ok]);
    assert.deepEqual(await queued('alice'), ['e1', 'e2', 'e3', 'e4', 'e6', 'e7']);
    const published = recorder.counted.filter(([name]) => name === 'published');
    assert.deepEqual(published, [['published', 'widgets', 6, 12]], 'what was not stored is not counted');
    assert.deepEqual(recorder.counted.at(-1), ['added', 'alice', 6]);
  });

  test('belongs to one client, topic and body', async () => {
    const shared = publisher();
    assert.equal(await shared.publish(keyed('e1', 'k')), 'accepted');
    assert.equal(await shared.publish(keyed('e2', 'k')), 'key_reused');
    assert.equal(await shared.publish(keyed('e1', 'k', 'gadgets')), 'key_reused');
    const mills = { ...one('e3', 'bolts', 'mill'), idempotency: idempotency('mill', 'k', 'bolts', 'e3') };
    assert.equal(await shared.publish(mills), 'accepted');
  });

  test('is remembered for the window', async () => {
    const shared = publisher({ limits: { ...PUBLISH_LIMITS, idempotencyWindowMs: 1000 } });
    assert.equal(await shared.publish(keyed('e1', 'k')), 'accepted');
    assert.equal(await shared.publish(keyed('e1', 'k')), 'repeated');
    await until(async () => (await shared.publish(keyed('e1', 'k'))) === 'accepted');
    assert.deepEqual(await queued('alice'), ['e1', 'e1']);
  });

  test('answers a repeat like the first publish, even if it has too many subscribers by now', async () => {
    const large: Publication = {
      ...one('', 'crowded'),
      events: Array.from({ length: 6000 }, () => 'e'),
      idempotency: idempotency('shop', 'k', 'crowded', 'e'),
    };
    const shared = publisher();
    assert.equal(await shared.publish(large), 'accepted');
    for (let i = 0; i < 200; i++) await bus.subscribe(`s${i}`, { topics: ['crowded'], timeout: 60_000 });
    await shared.publish(one('e1', 'crowded'));
    const another = { ...large, idempotency: idempotency('shop', 'l', 'crowded', 'e') };
    await assert.rejects(shared.publish(another), { code: 'body_too_large' });
    assert.equal(await shared.publish(large), 'repeated');
    assert.equal((await queued('s0')).length, 1);
  });
});

describe('when Redis', () => {
  test('is full, all publishes of the group fail, and nothing is stored', async () => {
    let found = 0;
    const shared = publisher({ onFull: () => found++ });
    await redis.store.redis.config('SET', 'maxmemory', '1');
    const answers = await Promise.allSettled([shared.publish(one('e1')), shared.publish(one('e2'))]);
    await redis.store.redis.config('SET', 'maxmemory', '0');
    for (const answer of answers)
      assert.ok(answer.status === 'rejected' && answer.reason instanceof StorageFull);
    assert.deepEqual([await queued('alice'), recorder.counted], [[], []]);
    assert.equal(found, 1, 'memory is to be freed');
    assert.equal(await shared.publish(one('e3')), 'accepted');
  });

  test('hangs, publishes wait; when it is killed, they fail; when it is back, publishes succeed again', async () => {
    const shared = publisher();
    // Lets all writes wait, as if Redis hung.
    await redis.store.redis.call('CLIENT', 'PAUSE', '60000', 'WRITE');
    const answers = Promise.allSettled(['e1', 'e2', 'e3'].map((event) => shared.publish(one(event))));
    await redis.redis.kill();
    for (const answer of await answers) {
      assert.ok(answer.status === 'rejected' && answer.reason instanceof StorageUnavailable);
      assert.ok(answer.reason instanceof BusError && answer.reason.headers['Retry-After'] === '1');
    }
    await assert.rejects(shared.publish(one('e4')), StorageUnavailable, 'at once, while it is away');

    await redis.redis.restart();
    await until(() => shared.publish(one('e5')));
    const { redis: commands } = redis.store;
    assert.equal(
      await commands.hget('topic:widgets', 'counter'),
      '1',
      'nothing was sent again behind our back',
    );
  });
});
