import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { readRecords } from '../../harness/scripts/records.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { slicesOf } from '../../src/chunks.ts';
import { Deliveries } from '../../src/records/deliveries.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(async () => {
  await assertConsistent(redis.store);
  await assertNothingToSweep(redis.store);
});

let calls = 0;

/** Makes a subscriber take this many batches of one event each. */
async function take(token: string, count: number, deliveryLog: number): Promise<void> {
  for (let left = count; left > 0; left -= 8) {
    const workers = Array.from({ length: Math.min(8, left) }, (_, i) => `w${i}`);
    await bus.publish(nthWord(calls++), token, Array(workers.length).fill('e'));
    const { grants } = await bus.acquire(workers, { deliveryLog });
    const finished = grants.map(({ worker, job }) => ({ worker, job }));
    await bus.acquire([], { finished, deliveryLog });
  }
}

/** Makes several subscribers take a batch each, in the same script call. */
async function takeTogether(tokens: string[], deliveryLog: number): Promise<void> {
  for (const token of tokens) await bus.publish(nthWord(calls++), token, ['e']);
  const { grants } = await bus.acquire(
    tokens.map((_, i) => `w${i}`),
    { deliveryLog },
  );
  const finished = grants.map(({ worker, job }) => ({ worker, job }));
  await bus.acquire([], { finished, deliveryLog });
}

async function lengths(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { token, ending } of (await readRecords(redis.store)).values())
    counts[`${ending} ${token}`] = (counts[`${ending} ${token}`] ?? 0) + 1;
  return counts;
}

describe('the delivery log', () => {
  beforeEach(async () => {
    calls = 0;
    for (const token of ['busy', 'quiet']) await bus.subscribe(token, { topics: [token], max: 1 });
  });

  test('keeps as many records as it may, and those of a quiet subscriber longer', async () => {
    await take('quiet', 30, 200);
    await take('busy', 400, 200);
    const { 'taken busy': busy = 0, 'taken quiet': quiet = 0 } = await lengths();
    assert.equal(quiet, 30);
    assert.ok(busy + quiet <= 200 && busy + quiet > 100, `${busy} and ${quiet}`);
  });

  test('shares its room among subscribers that are all busy', async () => {
    await take('quiet', 200, 160);
    for (let i = 0; i < 6; i++) {
      await take('busy', 40, 160);
      await take('quiet', 8, 160);
    }
    const { 'taken busy': busy = 0, 'taken quiet': quiet = 0 } = await lengths();
    assert.ok(busy + quiet <= 160 && Math.abs(busy - quiet) <= 80, `${busy} and ${quiet}`);
  });

  test('shares its room among many subscribers, too, of which none has many records', async () => {
    const tokens = Array.from({ length: 20 }, (_, i) => `many${i}`);
    for (const token of tokens) await bus.subscribe(token, { topics: [token], max: 1 });
    for (let i = 0; i < 12; i++) for (const token of tokens) await take(token, 1, 100);
    const kept = await lengths();
    assert.deepEqual(kept, Object.fromEntries(tokens.map((token) => [`taken ${token}`, 5])));
    await take('busy', 40, 100);
    assert.equal((await lengths())['taken many0'], 5);
    const { 'taken busy': busy = 0 } = await lengths();
    assert.ok(busy > 0 && busy <= 16, `the newest stay: ${busy}`);
  });

  test('shares its room among many subscribers also if each gets many records at once', async () => {
    const tokens = Array.from({ length: 20 }, (_, i) => `many${i}`);
    for (const token of tokens) {
      await bus.subscribe(token, { topics: [token], max: 1 });
      await bus.publish(nthWord(calls++), token, Array(30).fill('e'));
    }
    const slice = { maxBatches: 100, untilMs: Number.MAX_SAFE_INTEGER, deliveryLog: 100 };
    for (const token of tokens) await redis.store.run('drop_queue', { token, ...slice });
    const kept = Object.values(await lengths());
    assert.equal(kept.length, 20);
    assert.ok(kept.reduce((sum, each) => sum + each) <= 200, `${kept}`);
  });

  test('shrinks when it may keep fewer, and keeps nothing more when it is off', async () => {
    await take('busy', 200, 1000);
    await take('busy', 16, 100);
    const { 'taken busy': busy = 0 } = await lengths();
    assert.ok(busy <= 100, String(busy));
    await take('busy', 24, 0);
    assert.deepEqual(await lengths(), { 'taken busy': busy });
  });

  test('keeps the newest records, in the order in which the batches ended', async () => {
    await take('busy', 100, 50);
    const ended = [...(await readRecords(redis.store)).values()].map(({ record }) => Number(record[0]));
    assert.deepEqual(ended, ended.toSorted());
    const { entries } = await redis.store.run('list_deliveries', { tokens: [], sinceMs: 0, limit: 1 });
    assert.match(entries[0]?.record ?? '', new RegExp(`^${ended.at(-1)},`));
  });

  test('is found from any time on, whatever the logs of the subscribers look like', async () => {
    for (const [token, count] of [
      ['quiet', 1],
      ['busy', 50],
      ['quiet', 16],
      ['busy', 3],
    ] as const)
      await take(token, count, 1000);
    const ended = [...(await readRecords(redis.store)).values()]
      .map(({ record }) => Number(record[0]))
      .sort();
    for (const [i, us] of ended.entries()) {
      const bounds = { sinceMs: 0, untilMs: us / 1000, limit: 4 };
      const { entries } = await redis.store.run('list_deliveries', {
        tokens: [],
        state: 'taken',
        ...bounds,
      });
      const found = entries.map(({ record = '' }) => Number(record.split(',')[0]));
      assert.deepEqual(found, ended.slice(0, i).reverse().slice(0, 4));
    }
  });

  test('is listed whole, whatever of the trail of all logs is left', async () => {
    for (let i = 0; i < 4; i++) {
      for (const token of ['quiet', 'busy']) await take(token, token === 'busy' ? 40 : 3, 128);
      await takeTogether(['busy', 'quiet'], 128);
    }
    const { redis: commands, keys } = redis.store;
    const ended = [...(await readRecords(redis.store))].map(([id, { record }]) => ({
      id,
      us: Number(record[0]),
    }));
    const newestFirst = ended.sort((one, other) => other.us - one.us).map(({ id }) => id);
    const trail = keys.deliveries_trail('taken');
    const length = await commands.llen(trail);
    for (const left of [length, 7, 2, 1, 0]) {
      if (left === 0) await commands.del(trail);
      else await commands.ltrim(trail, -left, -1);
      const found: string[] = [];
      for (let place = {}; ; ) {
        const page = { tokens: [], sinceMs: 0, limit: 5, ...place };
        const { entries, nextMs, nextId } = await redis.store.run('list_deliveries', page);
        found.push(...entries.map(({ id }) => id));
        if (nextMs === undefined) break;
        place = { placeMs: Number(nextMs), placeId: nextId };
      }
      assert.deepEqual(found, newestFirst, `with ${left} of ${length} entries`);
    }
  });

  test('is listed past thousands of writes whose records are gone, by pages that are short', async () => {
    const { redis: commands, keys } = redis.store;
    const beganUs = Date.now() * 1000 - 60_000_000;
    const writes = Array.from({ length: 4500 }, (_, i) => `${beganUs + 1000 + i}\nquiet`);
    await commands.rpush(
      keys.deliveries_trail('taken'),
      `${beganUs - 1}\nbusy`,
      `${beganUs}\nquiet`,
      ...writes,
    );
    await commands.rpush(
      keys.deliveries_taken('quiet'),
      'old-----------------',
      `${beganUs + 1},1,1,1,null,9,1,200,5`,
    );
    await commands.zadd(keys.deliveries_logs(), 0, 'taken quiet');
    await take('busy', 1, 100_000);
    const found: number[] = [];
    for (let place = {}; ; ) {
      const page = { tokens: [], state: 'taken', sinceMs: 0, limit: 5, ...place };
      const { entries, nextMs, nextId, looked } = await redis.store.run('list_deliveries', page);
      assert.ok(looked < 2100, String(looked));
      found.push(entries.length);
      if (nextMs === undefined) break;
      place = { placeMs: Number(nextMs), placeId: nextId };
    }
    assert.deepEqual(found, [1, 0, 1]);
  });

  test('keeps the last failures of a batch as far as they are short', async () => {
    await bus.publish('zz', 'busy', ['e']);
    const attempt = (at: number, length: number) =>
      JSON.stringify({ at, status: 500, duration_ms: 1, reason: 'HTTP 500', answer: 'x'.repeat(length) });
    for (const [at, length] of [
      [1, 10],
      [2, 500],
      [3, 10],
      [4, 10],
    ] as const) {
      await bus.acquire(['w1']);
      await bus.nack('w1', 'zz1', { attempt: attempt(at, length) });
    }
    await bus.acquire(['w1']);
    await bus.ack('w1', 'zz1');
    const [{ record = [] } = {}] = (await readRecords(redis.store)).values();
    const [first, failed] = record.slice(-2) as [number, { at: number }[]];
    assert.equal(first, 1);
    assert.deepEqual(
      failed.map(({ at }) => at),
      [3, 4],
    );
  });

  test('has a batch as dropped that nobody took, as its subscriber had left when it was acquired', async () => {
    await bus.publish('zz', 'busy', ['e', 'f']);
    const { redis: commands, keys } = redis.store;
    await redis.store.run('remove_subscriber', { token: 'busy', series: [] });
    await bus.acquire(['w1', 'w2']);
    await bus.ack('w1', 'zz1', { record: '' });
    assert.deepEqual(await lengths(), {});
    await bus.subscribe('busy', { topics: ['busy'], max: 1 });
    await bus.ack('w2', 'zz2', { record: '' });
    assert.deepEqual(await lengths(), { 'dropped busy': 1 });
    assert.equal(await commands.llen(keys.deliveries_dropped('busy')), 2);
  });

  test('is searched for a batch in several calls, each of which looks at some of the logs', async () => {
    const tokens = Array.from({ length: 1300 }, (_, i) => `sub${i}`);
    for (const token of tokens) await bus.subscribe(token, { topics: ['all'], max: 1 });
    await bus.publish('zz', 'all', ['e']);
    for (const slice of slicesOf(tokens, 100)) {
      const { grants } = await bus.acquire(slice);
      await bus.acquire([], { finished: grants.map(({ worker, job }) => ({ worker, job })) });
    }
    const ids = [...(await readRecords(redis.store)).keys()];
    assert.equal(ids.length, tokens.length);
    const deliveries = new Deliveries(new Partitions(redis.store));
    assert.deepEqual(await deliveries.find('nobody--------------'), { delivery: undefined, looked: 1300 });
    for (const id of ids.filter((_, i) => i % 100 === 0)) {
      const { delivery } = await deliveries.find(id);
      assert.equal(delivery?.state, 'taken');
    }
    const { looked, place } = await redis.store.run('find_delivery', {
      ...{ tokens: [], id: 'nobody--------------', place: '0' },
    });
    assert.ok(place !== '0' && looked < 700, `a call looked at ${looked} records`);
  });
});
