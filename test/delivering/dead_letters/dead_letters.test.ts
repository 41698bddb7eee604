import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { RUBY_EVENT } from '../../../harness/redis/ruby_redis.ts';
import { scriptCalls } from '../../../harness/redis/script_calls.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { buryAll, readDeadLetters } from '../../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { longName, shortName } from '../../../harness/scripts/names.ts';
import { attemptJson } from '../../../src/delivering/attempt.ts';
import { DeadLetters } from '../../../src/delivering/dead_letters/dead_letters.ts';
import { eventText } from '../../../src/publishing/event.ts';
import { deadLetterOf, wholeLetterJson } from '../../../src/records/dead_letter.ts';
import { Deliveries } from '../../../src/records/deliveries.ts';
import type { Delivery } from '../../../src/records/delivery.ts';
import type { Place } from '../../../src/records/place.ts';
import type { Arguments, ScriptName } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let revived: [token: string, events: number][] = [];
const partitions = (store: Partition = redis.store) => new Partitions(store);
const deadLetters = (store?: Partition) =>
  new DeadLetters(partitions(store), { deliveryLog: 1000 }, (token, events) => revived.push([token, events]));
const deliveries = () => new Deliveries(partitions());
const list = (tokens: string[] | undefined, limit: number, after?: Place) =>
  deliveries().list({ tokens, state: 'dead', after }, limit);
const THEN_MS = 1_600_000_000_000;
const names = (letters: readonly Delivery[]) => letters.map(({ id }) => shortName(id));
const dead = async () => Object.keys(await readDeadLetters(redis.store));

beforeEach(async () => {
  revived = [];
  await redis.flush();
});
afterEach(() => assertConsistent(redis.store));

/** Makes `count` dead letters of a subscriber with one event each: a1, a2, … for the seed a. */
async function deaths(token: string, seed: string, count: number): Promise<void> {
  await bus.subscribe(token, { topics: [token], max: 1 });
  await bus.publish(seed, token, Array<string>(count).fill('e'));
  await buryAll(redis.store);
}

/** Changes the time of death of these dead letters. */
async function diedAt(token: string, ms: number, ...letters: string[]): Promise<void> {
  const { redis: commands, keys } = redis.store;
  for (const id of letters.map(longName)) {
    await commands.hset(keys.dead_letter_about(id), 'died_at', ms);
    await commands.zadd(keys.dead_letters_index(), ms, id);
    await commands.zadd(keys.dead_letters_of(token), ms, id);
  }
}

describe('the list', () => {
  async function pages(limit: number, ...subscribers: string[]): Promise<string[][]> {
    const all: string[][] = [];
    let next: Place | undefined;
    do {
      const page = await list(subscribers.length > 0 ? subscribers : undefined, limit, next);
      all.push(names(page.deliveries));
      next = page.next;
    } while (next);
    return all;
  }

  test('shows what each is, and when it was opened and died', async () => {
    await bus.subscribe('alice', { max: 2 });
    const before = await bus.nowMs();
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    await bus.acquire(['w1']);
    await bus.nack('w1', 'a1', { attempt: '{}' });
    await buryAll(redis.store);
    const [letter, ...more] = (await list(undefined, 10)).deliveries.map(deadLetterOf);
    const { created_at = 0, died_at = 0, ...rest } = letter ?? {};
    assert.deepEqual(more, []);
    assert.deepEqual(rest, {
      ...{ id: longName('a1'), subscriber: 'alice', reason: 'max_attempts' },
      ...{ attempts: 2, event_count: 2 },
    });
    assert.ok(before <= created_at && created_at <= died_at && died_at <= (await bus.nowMs()));
  });

  test('is empty where there is none', async () => {
    await bus.subscribe('alice');
    assert.deepEqual(await pages(10, 'alice'), [[]]);
    assert.deepEqual(await pages(10), [[]]);
  });

  test('has the newest first, in pages, of all or of one', async () => {
    await deaths('alice', 'a', 3);
    await deaths('bob', 'b', 2);
    for (const [i, name] of ['a1', 'a2', 'a3'].entries()) await diedAt('alice', THEN_MS + 2 * i, name);
    for (const [i, name] of ['b1', 'b2'].entries()) await diedAt('bob', THEN_MS + 1 + 2 * i, name);
    assert.deepEqual(await pages(2), [['a3', 'b2'], ['a2', 'b1'], ['a1']]);
    assert.deepEqual(await pages(5), [['a3', 'b2', 'a2', 'b1', 'a1']]);
    assert.deepEqual(await pages(1, 'alice'), [['a3'], ['a2'], ['a1']]);
    assert.deepEqual(await pages(10, 'bob'), [['b2', 'b1']]);
    assert.deepEqual(await pages(10, 'carol'), [[]]);
    assert.deepEqual(await pages(3, 'bob', 'alice', 'carol'), [
      ['a3', 'b2', 'a2'],
      ['b1', 'a1'],
    ]);
  });

  test('leaves none out, and repeats none, where many died in the same millisecond', async () => {
    await deaths('alice', 'a', 9);
    await diedAt('alice', THEN_MS + 1, 'a9');
    await diedAt('alice', THEN_MS, ...['a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8']);
    await diedAt('alice', THEN_MS - 1, 'a1');
    const all = ['a9', 'a8', 'a7', 'a6', 'a5', 'a4', 'a3', 'a2', 'a1'];
    for (const limit of [1, 2, 3, 4, 8]) assert.deepEqual((await pages(limit)).flat(), all, `by ${limit}`);
  });

  test('goes on behind a letter that is gone by now', async () => {
    await deaths('alice', 'a', 4);
    await diedAt('alice', THEN_MS, 'a1', 'a2', 'a3', 'a4');
    const { next } = await list(['alice'], 2);
    assert.deepEqual(next, { atMs: THEN_MS, id: longName('a3') });
    await deadLetters().purge(longName('a3'));
    assert.deepEqual(names((await list(['alice'], 2, next)).deliveries), ['a2', 'a1']);
  });
});

describe('one letter', () => {
  const found = async (name: string) => {
    const { delivery } = await deliveries().find(longName(name), undefined, 'dead');
    assert.ok(delivery);
    return delivery;
  };
  const eventsOf = async (letter: Delivery) => (await Array.fromAsync(deliveries().events(letter))).flat();
  const publishEvents = (...events: (string | Buffer)[]) => bus.publish('a', 'widgets', events);
  const event = (n: number, data?: string) =>
    eventText({
      id: `e${n}`,
      topic: 'widgets',
      type: 'noop',
      url: `https://a.example/${n}`,
      timestamp: n,
      data,
    });

  test('has the history of its attempts', async () => {
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e']);
    await bus.acquire(['w1']);
    const first = { atMs: 1, durationMs: 12.7, status: 503, reason: 'HTTP 503', answer: 'so "busy"' };
    await bus.nack('w1', 'a1', { attempt: attemptJson(first) });
    await buryAll(redis.store, { atMs: 2, durationMs: 3, reason: 'ECONNREFUSED' });
    assert.deepEqual((await found('a1')).attempts, [
      { at: 1, status: 503, duration_ms: 13, reason: 'HTTP 503', answer: 'so "busy"' },
      { at: 2, status: null, duration_ms: 3, reason: 'ECONNREFUSED', answer: null },
    ]);
  });

  test('has its events as they would have been delivered, and what cannot be decoded as it is', async () => {
    await bus.subscribe('alice', { max: 3 });
    const garbled = Buffer.from([0x92, 0xa1, 0x65, 0x85, 0xc1, 0xff]);
    await publishEvents(event(1, '{"n":1152921504606846976}'), garbled, RUBY_EVENT);
    await buryAll(redis.store);
    assert.deepEqual(await eventsOf(await found('a1')), [
      '{"id":"e1","topic":"widgets","type":"noop","url":"https://a.example/1","t":1,"data":{"n":1152921504606846976}}',
      `{"undecodable":"${garbled.toString('base64')}"}`,
      '{"id":"Sm-vP7v_ci4UICAV","topic":"widgets","type":"create","url":"https://a.example.com/w/1","t":1795166913608}',
    ]);
  });

  test('has any number of events, read a few at a time', async () => {
    await bus.subscribe('alice', { max: 1000 });
    await publishEvents(...Array.from({ length: 1000 }, (_, n) => event(n)));
    await buryAll(redis.store);
    const events = await eventsOf(await found('a1'));
    assert.deepEqual(
      events.map((json) => JSON.parse(json).t),
      Array.from({ length: 1000 }, (_, n) => n),
    );
  });

  test('that is taken away while it is read is no letter any more', async () => {
    await bus.subscribe('alice', { max: 100 });
    await publishEvents(...Array.from({ length: 100 }, (_, n) => event(n)));
    await buryAll(redis.store);
    const letter = await found('a1');
    const json = wholeLetterJson(deadLetterOf(letter), deliveries().events(letter));
    assert.equal((await json.next()).done, false);
    await deadLetters().purge(longName('a1'));
    await assert.rejects(Array.fromAsync(json), { code: 'dead_letter_not_found' });
  });

  test('is there for its subscriber and for root alone', async () => {
    await deaths('alice', 'a', 1);
    const owner = async (name: string, clients?: string[]) =>
      (await deliveries().find(longName(name), clients, 'dead')).delivery?.subscriber;
    assert.equal(await owner('a1', ['alice']), 'alice');
    assert.equal(await owner('a1'), 'alice');
    assert.equal(await owner('a1', ['bob']), undefined);
    assert.equal(await owner('a2'), undefined);
    assert.equal(
      await deadLetters().retry({ id: longName('a1'), subscriber: 'bob' }),
      'dead_letter_not_found',
    );
    assert.equal(await deadLetters().purge(longName('a1'), 'bob'), false);
    assert.deepEqual(await dead(), ['a1']);
  });

  test('is retried, which is told', async () => {
    await deaths('alice', 'a', 2);
    assert.equal(await deadLetters().retry({ id: longName('a1'), subscriber: 'alice' }), 'ok');
    assert.equal(
      await deadLetters().retry({ id: longName('a1'), subscriber: 'alice' }),
      'dead_letter_not_found',
    );
    assert.deepEqual(revived, [['alice', 1]]);
    assert.deepEqual(Object.keys((await bus.state()).batches), ['a1']);
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.equal(
      await deadLetters().retry({ id: longName('a2'), subscriber: 'alice' }),
      'subscriber_not_found',
    );
    assert.deepEqual(await dead(), ['a2']);
  });

  test('is purged', async () => {
    await deaths('alice', 'a', 2);
    assert.equal(await deadLetters().purge(longName('a1'), 'alice'), true);
    assert.equal(await deadLetters().purge(longName('a1'), 'alice'), false);
    assert.deepEqual(await dead(), ['a2']);
    assert.deepEqual(revived, []);
  });
});

describe('all letters of a subscriber', () => {
  test('are retried, the oldest first, and nobody else’s', async () => {
    await deaths('alice', 'a', 3);
    await deaths('bob', 'b', 1);
    await diedAt('alice', THEN_MS + 1, 'a1');
    await diedAt('alice', THEN_MS + 2, 'a3');
    await diedAt('alice', THEN_MS + 3, 'a2');
    assert.equal(await deadLetters().retryAll('alice'), 3);
    assert.deepEqual((await bus.state()).main.instant, ['a1', 'a3', 'a2']);
    assert.deepEqual(await dead(), ['b1']);
    assert.equal(await deadLetters().retryAll('alice'), 0);
  });

  test('are purged, and nobody else’s; or those up to a time', async () => {
    await deaths('alice', 'a', 3);
    await deaths('bob', 'b', 1);
    await diedAt('alice', THEN_MS, 'a1', 'a3');
    assert.equal(await deadLetters().purgeAll('alice', THEN_MS), 2);
    assert.deepEqual(await dead(), ['a2', 'b1']);
    assert.equal(await deadLetters().purgeAll('alice'), 1);
    assert.equal(await deadLetters().purgeAll('alice'), 0);
    assert.deepEqual(await dead(), ['b1']);
  });

  for (const [what, call] of [
    ['retried', (letters: DeadLetters) => letters.retryAll('alice')],
    ['purged', (letters: DeadLetters) => letters.purgeAll('alice')],
  ] as const) {
    test(`can be many: they are ${what} in slices`, async () => {
      await deaths('alice', 'a', 230);
      const before = await scriptCalls(redis.store);
      assert.equal(await call(deadLetters()), 230);
      assert.equal((await scriptCalls(redis.store)) - before, 3);
      assert.deepEqual(await dead(), []);
    });

    test(`are ${what} though any number of entries before them name nothing, or somebody else’s`, async () => {
      await deaths('alice', 'a', 3);
      await deaths('bob', 'b', 1);
      const { redis: commands, keys } = redis.store;
      const index = keys.dead_letters_of('alice');
      for (let i = 1; i <= 250; i++) await commands.zadd(index, i, longName(`lost${i}`));
      await commands.zadd(index, 1, longName('b1'));
      assert.equal(await call(deadLetters()), 3);
      assert.deepEqual([await dead(), await commands.exists(index)], [['b1'], 0]);
    });
  }

  test('are retried once each: one that dies again meanwhile stays', async () => {
    await deaths('alice', 'a', 230);
    const dying = Object.create(redis.store, {
      run: {
        value: async <N extends ScriptName>(name: N, args: Arguments<N>) => {
          const reply = await redis.store.run(name, args);
          if (name === 'revive') await buryAll(redis.store);
          return reply;
        },
      },
    }) as Partition;
    assert.equal(await deadLetters(dying).retryAll('alice'), 230);
    assert.equal((await dead()).length, 230);
    assert.equal(revived.length, 230);
  });

  test('stay where the subscriber has left, and that is found out once', async () => {
    await deaths('alice', 'a', 230);
    await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.equal(await deadLetters().retryAll('alice'), 0);
    assert.equal((await dead()).length, 230);
    assert.equal(await deadLetters().purgeAll('alice'), 230);
  });
});
