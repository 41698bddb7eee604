import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName, nthWord } from '../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const KB = 1024;

beforeEach(() => redis.flush());
afterEach(async () => {
  await assertConsistent(redis.store);
  await assertNothingToSweep(redis.store);
});

/** Returns an event whose text has this many bytes. A delivery of 1 KB has room for four of 254 bytes. */
const event = (bytes: number, n = 0) => `{"n":${n},"x":"`.padEnd(bytes - 2, 'x').concat('"}');
const events = (count: number, bytes = 254) => Array.from({ length: count }, (_, n) => event(bytes, n));
const bodyBytes = (batch: string[] | undefined) => Buffer.byteLength(`[${batch?.slice(3).join(',')}]`);

/**
 * Number of calls so far that may have cut a batch. It is a part of the names of new batches, because no two batches
 * may have the same name.
 */
let calls = 0;

/** Delivers ready batches one after the other until none is left. Resolves with them. */
async function deliverAll(): Promise<{ job: string; events: string[]; bytes: number }[]> {
  const delivered = [];
  for (let n = 0; ; n++) {
    const seed = `cut${nthWord(Math.floor(calls / 676))}${nthWord(calls++ % 676)}`;
    const { grants } = await bus.acquire(['w1'], { seed });
    const [grant] = grants;
    if (!grant) return delivered;
    delivered.push({ job: grant.job, events: grant.batch?.slice(3) ?? [], bytes: bodyBytes(grant.batch) });
    if (n % 20 === 0) await assertConsistent(redis.store);
    await bus.ack('w1', grant.job);
  }
}

describe('a batch is full by bytes', () => {
  test('when a delivery of its events has max_bytes, and is ready then', async () => {
    await bus.subscribe('alice', { maxBytes: KB });
    for (const seed of ['a', 'b', 'c']) await bus.publish(seed, 'widgets', events(1));
    assert.deepEqual((await bus.state()).main.instant, []);
    await bus.publish('d', 'widgets', events(1, 257));
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant, current], [['a1'], {}]);
    const [{ bytes } = { bytes: 0 }] = await deliverAll();
    assert.equal(bytes, KB);
  });

  test('when it has no room for the next events, which open another one', async () => {
    await bus.subscribe('alice', { maxBytes: KB });
    await bus.publish('a', 'widgets', events(3));
    await bus.publish('b', 'widgets', events(2));
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant, current], [['a1'], { alice: ['b1'] }]);
  });

  test('also when it is opened by events that fill it', async () => {
    await bus.subscribe('alice', { maxBytes: KB });
    await bus.publish('a', 'widgets', events(5));
    assert.deepEqual((await bus.state()).main.instant, ['a1']);
  });

  test('of 1 MiB unless its subscriber asks for another number', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', events(14, 65 * KB));
    assert.deepEqual((await bus.state()).main.instant, []);
    await bus.publish('b', 'widgets', events(3, 65 * KB));
    const { main, current, batches } = await bus.state();
    assert.deepEqual([main.instant, current], [['a1'], { alice: ['b1'] }]);
    assert.equal(batches.a1?.events.length, 14);
  });

  test('for each of many subscribers by its own number', async () => {
    const tokens = Array.from({ length: 20 }, (_, n) => `s${n}`);
    for (const [n, token] of tokens.entries()) await bus.subscribe(token, { maxBytes: n % 2 ? KB : 2 * KB });
    await bus.publish('a', 'widgets', events(3));
    await bus.publish('b', 'widgets', events(2));
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant.length, Object.keys(current).length], [10, 20]);
  });

  test('or when its subscriber asks for another max_bytes', async () => {
    await bus.subscribe('alice', { maxBytes: 4 * KB });
    await bus.publish('a', 'widgets', events(6));
    await bus.subscribe('alice', { maxBytes: 4 * KB });
    assert.deepEqual((await bus.state()).main.instant, []);
    await bus.subscribe('alice', { maxBytes: 2 * KB });
    assert.deepEqual((await bus.state()).main.instant, ['a1']);
    await bus.publish('c', 'widgets', events(6));
    await bus.publish('d', 'widgets', events(3));
    assert.deepEqual((await bus.state()).main.instant, ['a1', 'c1']);
  });

  test('also if small events came first, which are not counted, or all that an older release stored', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', events(50));
    await bus.publish('b', 'widgets', events(15, 65 * KB));
    assert.deepEqual((await bus.state()).main.instant, []);
    await bus.publish('c', 'widgets', events(1, 65 * KB));
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant, current], [['a1'], { alice: ['c1'] }]);
  });

  test('for which small events are not counted: a full batch of them has at most an eighth of max_bytes', async () => {
    const counted = async () => (await bus.store.redis.hkeys(bus.store.keys.batches_room())).sort();
    for (const max of [50, 100, 1000]) await bus.subscribe(`max${max}`, { max });
    await bus.publish('a', 'widgets', events(2, 100));
    assert.deepEqual(await counted(), []);
    await bus.publish('b', 'widgets', events(2, 200));
    assert.deepEqual(await counted(), ['max1000']);
    await bus.publish('c', 'widgets', events(2, 2 * KB));
    assert.deepEqual(await counted(), ['max100', 'max1000']);
  });

  test('of the next batch by its own bytes', async () => {
    await bus.subscribe('alice');
    await bus.publish('a', 'widgets', events(14, 65 * KB));
    await bus.publish('b', 'widgets', events(86));
    await bus.publish('c', 'widgets', events(1));
    await bus.publish('d', 'widgets', events(14, 65 * KB));
    const { main, current } = await bus.state();
    assert.deepEqual([main.instant, current], [['a1'], { alice: ['c1'] }]);
  });
});

describe('a delivery carries no more than max and max_bytes', () => {
  for (const ordered of [0, 1] as const) {
    const kind = ordered ? 'an ordered subscriber' : 'a subscriber';
    test(`of ${kind}: events of one call that are more come in several, in their order`, async () => {
      await bus.subscribe('alice', { maxBytes: KB, ordered });
      const published = events(41);
      await bus.publish('a', 'widgets', published);
      await bus.publish('b', 'widgets', ['"last"']);
      await bus.ripen('b1');
      const delivered = await deliverAll();
      assert.deepEqual(
        delivered.flatMap((each) => each.events),
        [...published, '"last"'],
      );
      assert.equal(delivered.length, 12);
      for (const { bytes } of delivered) assert.ok(bytes <= KB, `${bytes} bytes`);
    });

    test(`of ${kind}: an array that would open hundreds of batches is cut when it is delivered`, async () => {
      await bus.subscribe('alice', { max: 1, ordered });
      await bus.publish('a', 'widgets', events(2));
      await bus.publish('b', 'widgets', events(400));
      const { queued, gauges } = await bus.state();
      assert.deepEqual(queued, { alice: ['a1', 'a2', 'b1'] });
      assert.deepEqual(gauges, { events: { alice: 402 }, batches: { alice: 3 } });
      const { readyJobs } = await bus.acquire(['w1', 'w2', 'w3', 'w4']);
      assert.equal(readyJobs, ordered ? 0 : 1);
      for (const worker of ['w1', 'w2', 'w3', 'w4']) {
        const [job] = (await bus.state()).main.pending[worker] ?? [];
        if (job !== undefined) await bus.ack(worker, job);
      }
      const delivered = await deliverAll();
      const taken = ordered ? 1 : 4;
      assert.deepEqual(
        delivered.map((each) => each.events.length),
        Array(402 - taken).fill(1),
      );
      assert.deepEqual(
        delivered.flatMap((each) => each.events),
        [...events(2), ...events(400)].slice(taken),
      );
    });
  }

  test('but a longer event, which is delivered alone', async () => {
    await bus.subscribe('alice', { maxBytes: KB });
    await bus.publish('a', 'widgets', [event(100), event(5 * KB), event(3 * KB), event(100)]);
    assert.deepEqual(
      (await deliverAll()).map((each) => each.events.map((text) => text.length)),
      [[100], [5 * KB], [3 * KB], [100]],
    );
  });

  test('by several workers at once: each gets what is next', async () => {
    await bus.subscribe('alice', { maxBytes: KB });
    await bus.publish('a', 'widgets', events(20));
    const { grants } = await bus.acquire(['w1', 'w2', 'w3']);
    assert.deepEqual(
      grants.flatMap(({ batch }) => batch?.slice(3)),
      events(12),
    );
    const names = grants.map(({ job }) => job);
    assert.deepEqual(names, ['cut1', 'cut3', 'cut5']);
  });

  test('of a subscriber that becomes ordered: what was cut before comes in order too', async () => {
    for (const [max, count] of [
      [4, 24],
      [1, 6],
    ] as const) {
      await redis.flush();
      await bus.subscribe('alice');
      await bus.publish('a', 'widgets', events(count));
      await bus.subscribe('alice', { max });
      await bus.ripen('a1');
      // The parts of a batch have random names, so a later part may sort before an earlier one.
      const workers = ['w1', 'w2', 'w3', 'w4'];
      for (const [i, worker] of workers.entries()) await bus.acquire([worker], { seed: `cut${'dcba'[i]}` });
      const { main } = await bus.state();
      for (const worker of workers) await bus.nack(worker, main.pending[worker]?.[0] ?? '');
      await bus.subscribe('alice', { max, ordered: 1 });
      const delivered = await deliverAll();
      assert.deepEqual(
        delivered.map((each) => each.events),
        Array.from({ length: 6 }, (_, i) => events(count).slice(max * i, max * i + max)),
      );
    }
  });

  test('before batches that the same call opened, whatever their names', async () => {
    for (const seed of ['aa', 'zz']) {
      await redis.flush();
      await bus.subscribe('alice', { max: 2 });
      await bus.publish('mm', 'widgets', events(4));
      await bus.subscribe('alice', { max: 1, ordered: 1 });
      const delivered = [];
      for (let n = 0; n < 4; n++) {
        const [grant] = (await bus.acquire(['w1'], { seed: `${seed}${nthWord(n)}` })).grants;
        delivered.push(...(grant?.batch?.slice(3) ?? []));
        await bus.ack('w1', grant?.job ?? '');
      }
      assert.deepEqual(delivered, events(4));
    }
  });

  test('over all attempts: what was cut is tried again as it was', async () => {
    await bus.subscribe('alice', { max: 100, maxBytes: KB });
    await bus.publish('a', 'widgets', events(20));
    const { grants } = await bus.acquire(['w1']);
    await bus.subscribe('alice', { max: 1, maxBytes: KB });
    await bus.nack('w1', 'cut1', { attempt: '{}' });
    const again = await bus.acquire(['w1'], { seed: 'again' });
    assert.deepEqual([again.grants[0]?.job, again.grants[0]?.batch?.[2]], ['cut1', '2']);
    assert.deepEqual(again.grants[0]?.batch?.slice(3), grants[0]?.batch?.slice(3));
  });

  test('of a probe: the rest waits until it was accepted', async () => {
    await bus.subscribe('alice', { maxBytes: KB, proven: false });
    await bus.publish('a', 'widgets', events(20));
    await bus.acquire(['w1', 'w2']);
    const { main, lanes } = await bus.state();
    assert.deepEqual([main.pending, lanes.waiting], [{ w1: ['cut1'] }, { alice: ['cut2'] }]);
    await bus.ack('w1', 'cut1');
    assert.equal((await deliverAll()).length, 4);
  });

  test('of which the worker reads more than 2 MiB itself, unless they must be cut', async () => {
    const all = events(100, 64 * KB);
    for (const [seed, maxBytes, deliveries] of [
      ['a', 16 * KB * KB, 1],
      ['b', 7 * KB * KB, 2],
      ['c', 4 * KB * KB, 3],
    ] as const) {
      await bus.subscribe('alice', { max: 10_000, maxBytes: 16 * KB * KB });
      await bus.publish(seed, 'widgets', all);
      await bus.subscribe('alice', { max: 10_000, maxBytes });
      await bus.ripen(`${seed}1`);
      const delivered = await deliverAll();
      assert.deepEqual(
        delivered.flatMap((each) => each.events),
        all,
      );
      assert.equal(delivered.length, deliveries);
      for (const { bytes } of delivered) assert.ok(bytes <= maxBytes, `${bytes} bytes`);
    }
  });

  test('of what is retried after its death', async () => {
    await bus.subscribe('alice', { max: 10 });
    await bus.publish('a', 'widgets', events(10));
    await bus.acquire(['w1']);
    await bus.bury('w1', 'a1');
    await bus.subscribe('alice', { max: 3 });
    await bus.revive('alice', 'a1');
    assert.deepEqual(
      (await deliverAll()).map((each) => each.events.length),
      [3, 3, 3, 1],
    );
  });
});

describe('a batch of an older release', () => {
  /** Enlarges a batch to this many MB, as if a worker of an older release had tried to deliver all of it. */
  async function enlarge(name: string, mb: number, attempts: number): Promise<void> {
    const key = bus.store.keys.batch(longName(name));
    await bus.store.redis.rpush(key, ...events(mb * 16, 64 * KB));
    await bus.store.redis.lset(key, 2, attempts);
    await bus.store.redis.hincrby(bus.store.keys.gauge_events(), 'alice', mb * 16);
  }

  test('of any size is delivered in parts, whether it was attempted or not', async () => {
    await bus.subscribe('alice', { max: 1 });
    for (const [seed, attempts, largest, mb] of [
      ['a', 0, 1, 3],
      ['b', 3, 2, 36],
    ] as const) {
      await bus.publish(seed, 'widgets', events(1));
      await enlarge(`${seed}1`, mb, attempts);
      await bus.subscribe('alice', { max: 10_000 });
      const [first, ...others] = await deliverAll();
      assert.ok(first && first.bytes <= largest * KB * KB && first.bytes > (largest - 0.1) * KB * KB);
      for (const { bytes } of others) assert.ok(bytes <= KB * KB);
      const all = [first, ...others].flatMap((each) => each.events);
      assert.equal(all.length, mb * 16 + 1);
      await bus.subscribe('alice', { max: 1 });
    }
  });
});

test('a batch whose subscriber has left is not read', async () => {
  await bus.subscribe('alice', { max: 20 });
  await bus.publish('a', 'widgets', events(20));
  await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
  const { grants } = await bus.acquire(['w1']);
  assert.deepEqual(grants, [{ worker: 'w1', job: 'a1' }]);
  await bus.ack('w1', 'a1');
});
