import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { longName } from '../../harness/scripts/names.ts';
import type { Delivery } from '../../src/records/delivery.ts';
import {
  api,
  attempt,
  bus,
  event,
  HOUR_MS,
  namesIn,
  one,
  read,
  statesIn,
  subscriber,
} from './deliveries_scene.ts';

describe('a listing', () => {
  /** Makes batches of two subscribers in all states but paused. */
  async function fill(): Promise<void> {
    await subscriber('alpha', { topics: ['widgets'], inFlight: 50 });
    await subscriber('beta', { topics: ['gadgets'], max: 2, timeout: HOUR_MS });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: 12 }, (_, i) => event(`a${i}`)),
    );
    await bus.publish(
      'b',
      'gadgets',
      Array.from({ length: 7 }, (_, i) => event(`b${i}`, 'gadgets')),
    );
    const { grants } = await bus.acquire(['w1', 'w2', 'w3', 'w4', 'w5', 'w6', 'w7', 'w8']);
    assert.equal(grants.length, 8);
    for (const [worker, name] of [
      ['w1', 'a1'],
      ['w2', 'a2'],
      ['w3', 'a3'],
    ] as const)
      await bus.ack(worker, name);
    await bus.bury('w4', 'a4', { attempt: JSON.stringify(attempt(1)) });
    await bus.bury('w5', 'a5', { attempt: JSON.stringify(attempt(1)) });
    await bus.nack('w6', 'a6', { attempt: JSON.stringify(attempt(1)) });
    await bus.purge('', 'a5');
  }

  test('comes in pages, each batch once, the newest first', async () => {
    await fill();
    const all = await read('root', '/deliveries');
    assert.deepEqual(statesIn(all), {
      ...{ a1: 'taken', a2: 'taken', a3: 'taken', a4: 'dead', a5: 'dropped', a6: 'retrying' },
      ...{ a7: 'in_flight', a8: 'in_flight', a9: 'ready', a10: 'ready', a11: 'ready', a12: 'ready' },
      ...{ b1: 'ready', b2: 'ready', b3: 'ready', b4: 'open' },
    });
    const times = all.map(({ ended_at, opened_at }) => ended_at ?? opened_at);
    assert.deepEqual(
      times,
      times.toSorted((one, other) => other - one),
    );
    for (const limit of [1, 3, 5]) {
      const read = await api.pages<Delivery>('root', `/deliveries?limit=${limit}`);
      assert.deepEqual(read.flat(), all);
      assert.ok(read.every((page) => page.length <= limit));
    }
    const own = (await api.pages<Delivery>('alpha', '/deliveries?limit=2')).flat();
    assert.deepEqual(
      namesIn(own),
      namesIn(all).filter((name) => name.startsWith('a')),
    );
  });

  test('has only the state that is asked for', async () => {
    await fill();
    const all = await read('root', '/deliveries');
    for (const state of new Set(all.map((each) => each.state))) {
      const expected = all.filter((each) => each.state === state);
      assert.deepEqual(
        (await api.pages<Delivery>('root', `/deliveries?state=${state}&limit=2`)).flat(),
        expected,
        state,
      );
      const own = (await api.pages<Delivery>('beta', `/deliveries?state=${state}&limit=2`)).flat();
      assert.deepEqual(
        namesIn(own),
        namesIn(expected).filter((name) => name.startsWith('b')),
        state,
      );
    }
  });

  test('finds the few batches that are tried again among those of many subscribers', async () => {
    for (let i = 0; i < 120; i++) await bus.subscribe(`many${i}`, { max: 1 });
    await bus.publish('a', 'widgets', [event('e1')]);
    const workers = ['w1', 'w2', 'w3'];
    const { grants } = await bus.acquire(workers);
    for (const { worker, job } of grants)
      await bus.nack(worker, job, { attempt: JSON.stringify(attempt(1)), delayMs: 60_000 });
    const names = namesIn(await read('root', '/deliveries?state=retrying'));
    assert.deepEqual(names.sort(), grants.map(({ job }) => job).sort());
    assert.equal(names.length, 3);
  });

  test('has only what ended, or was opened if it has not, in the time that is asked for', async () => {
    await fill();
    const all = await read('root', '/deliveries');
    const time = ({ ended_at, opened_at }: Delivery) => ended_at ?? opened_at;
    for (const at of new Set(all.map(time)))
      for (const [query, isWanted] of [
        [`since=${at}`, (each: Delivery) => time(each) >= at],
        [`until=${at}`, (each: Delivery) => time(each) < at],
        [`since=${at}&until=${at + 1}`, (each: Delivery) => time(each) === at],
      ] as const)
        assert.deepEqual(
          (await api.pages<Delivery>('root', `/deliveries?${query}&limit=2`)).flat(),
          all.filter(isWanted),
        );
  });

  test('goes on behind thousands of batches in other states, by pages that are short', async () => {
    await subscriber('alpha');
    await subscriber('beta', { topics: ['gadgets'] });
    await bus.publish('b', 'gadgets', [event('e', 'gadgets')]);
    const alpha = api.store.keys.subscriber(await api.token('alpha'));
    const listed = async () => {
      await api.store.redis.hset(alpha, 'paused_at', 1);
      const read = await api.pages<Delivery>('root', '/deliveries?state=ready');
      await api.store.redis.hdel(alpha, 'paused_at');
      return read;
    };
    const publish = (seed: string, count: number) =>
      bus.publish(seed, 'widgets', Array(count).fill(event('e')));
    for (let i = 0; i < 10; i++) await publish(`a${nthLetter(i)}`, 200);
    // A call looks at the 2,000 batches before the one that is ready, and stops there.
    assert.deepEqual((await listed()).map(namesIn), [[], ['b1']]);
    for (let i = 0; i < 11; i++) await publish(`c${nthLetter(i)}`, 200);
    assert.deepEqual((await listed()).map(namesIn), [[], [], ['b1']]);
  });
});

const nthLetter = (n: number) => String.fromCharCode(97 + n);

describe('one batch', () => {
  test('comes with its events while it exists, and what they come to', async () => {
    await subscriber('sub', { max: 99, topics: ['widgets', 'gadgets'], timeout: HOUR_MS });
    const widgets = Array.from({ length: 50 }, (_, i) => event(`w${i}`));
    await bus.publish('a', 'widgets', widgets);
    await bus.publish('b', 'gadgets', [event('g', 'gadgets')]);
    const whole = await one('sub', 'a1');
    assert.equal(whole.state, 'open');
    assert.equal(JSON.stringify(whole.events), `[${[...widgets, event('g', 'gadgets')].join(',')}]`);
    assert.equal(whole.bytes, JSON.stringify(whole.events).length);
    assert.deepEqual(whole.topics, { widgets: 50, gadgets: 1 });
    await bus.ripen('a1');
    await bus.acquire(['w1']);
    await bus.bury('w1', 'a1', { attempt: JSON.stringify(attempt(1)) });
    assert.equal((await one('sub', 'a1')).events?.length, 51);
    await bus.purge('', 'a1');
    assert.equal((await one('sub', 'a1')).events, undefined);
  });

  test('has all of its failed attempts that are kept, a listing the last three', async () => {
    await subscriber('sub');
    await bus.publish('a', 'widgets', [event('e1')]);
    for (let at = 1; at <= 25; at++) {
      await bus.acquire(['w1']);
      await bus.nack('w1', 'a1', { attempt: JSON.stringify(attempt(at)) });
    }
    const [listed] = await read('sub', '/deliveries');
    assert.deepEqual(
      listed?.attempts.map(({ at }) => at),
      [23, 24, 25],
    );
    assert.deepEqual([listed?.first_attempt_at, listed?.last_attempt_at, listed?.attempt_count], [1, 25, 25]);
    const { attempts } = await one('sub', 'a1');
    assert.equal(attempts.length, 20);
    assert.deepEqual([attempts[0]?.at, attempts[1]?.at], [1, 7]);
  });

  test('shows what its subscriber wrote as text of JSON, however hostile', async () => {
    await subscriber('sub');
    await bus.publish('a', 'widgets', [event('e1')]);
    const hostile = { reason: '"],"state":"taken', answer: '</script><script>alert(1)</script>\\' };
    for (const end of [
      () => bus.nack('w1', 'a1', { attempt: JSON.stringify(attempt(1, hostile)) }),
      () => bus.ack('w1', 'a1'),
    ]) {
      await bus.acquire(['w1']);
      await end();
      const { text, headers } = await api.call('GET', '/deliveries', { as: 'sub' });
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      assert.equal(headers['x-content-type-options'], 'nosniff');
      const [{ attempts }] = JSON.parse(text);
      assert.deepEqual([attempts[0].reason, attempts[0].answer], [hostile.reason, hostile.answer]);
    }
  });
});

describe('with a limit to calls', () => {
  const slow = new Api({ env: { ROUTEMASTER_CALL_RATE: '1' } });
  const its = new Bus(() => slow.store);

  test('a search for one batch among many records counts as several', async () => {
    const token = await slow.token('sub');
    await its.subscribe(token, { max: 1 });
    const { redis, keys } = slow.store;
    const records = Array.from({ length: 2000 }, (_, i) => [
      longName(`r${i}`),
      `${Date.now()}000,1,1,1,null,9,1,200,5`,
    ]);
    for (let i = 0; i < 50; i++) await redis.rpush(keys.deliveries_taken(token), ...records.flat());
    const path = `/deliveries/${longName('no1')}`;
    assert.equal((await slow.call('GET', path, { as: 'sub' })).status, 404);
    const { status, headers } = await slow.call('GET', path, { as: 'sub' });
    assert.deepEqual([status, headers['retry-after']], [429, '1']);
  });
});
