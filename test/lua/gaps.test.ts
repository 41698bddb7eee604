import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import {
  aliceWithBatches,
  closeBatches,
  publishEvents,
  storedEvents,
} from '../../harness/scripts/batches_of_alice.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import type { DropNotice } from '../../src/subscribing/drop_notice.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

const createdMs = (name: string) => bus.createdMs(name);

const NOTHING = { next: null, carried: null, ever: null };

describe('a drop notice', () => {
  test('has the exact number of dropped events of a subscriber, their topics and their times', async () => {
    await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], max: 5, timeout: 0 });
    await bus.subscribe('bob', { topics: ['gadgets'], max: 5, timeout: 0 });
    await publishEvents(bus, 'a', 'widgets', 3);
    await publishEvents(bus, 'b', 'gadgets', 2);
    await closeBatches(bus, 'bob');
    await publishEvents(bus, 'c', 'gadgets', 4);
    const [from, to] = [await createdMs('a1'), await createdMs('c1')];
    assert.deepEqual(await bus.autodrop(2), { batches: 2, dropped: { alice: 5, bob: 2 } });
    const first = { batches: 1, events: 5, fromMs: from, toMs: from, topics: { widgets: 3, gadgets: 2 } };
    assert.deepEqual(await bus.gaps('alice'), { next: first, carried: null, ever: first });
    await bus.autodrop(100);
    const all = { batches: 2, events: 9, fromMs: from, toMs: to, topics: { widgets: 3, gadgets: 6 } };
    assert.deepEqual(await bus.gaps('alice'), { next: all, carried: null, ever: all });
    const { next } = await bus.gaps('bob');
    assert.deepEqual([next?.batches, next?.events, next?.topics], [2, 6, { gadgets: 6 }]);
  });

  test('includes dead letters by the time when their batches were opened', async () => {
    await aliceWithBatches(bus, 2, 3);
    const [from, to] = [await createdMs('aa1'), await createdMs('ab1')];
    await bus.acquire(['w1']);
    await bus.bury('w1', 'aa1');
    await bus.autodrop(100);
    const all = { batches: 2, events: 5, fromMs: from, toMs: to, topics: { widgets: 2, gadgets: 3 } };
    assert.deepEqual((await bus.gaps('alice')).ever, all);
  });

  test('is not kept for a subscriber that has left', async () => {
    await aliceWithBatches(bus, 1, 1);
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    assert.deepEqual(await bus.autodrop(100), { batches: 2, dropped: { alice: 2 } });
    assert.deepEqual(await bus.gaps('alice'), NOTHING);
  });
});

describe('a drop notice is sent', () => {
  /**
   * Resolves with the number of dropped events that the notice of each batch reports, for the batches that these
   * workers get.
   */
  const told = async (...workers: string[]) => {
    const { grants } = await bus.acquire(workers);
    return Object.fromEntries(grants.map(({ job, gap }) => [job, gap?.events]));
  };

  test('with the next batch, and not again once that is accepted', async () => {
    await aliceWithBatches(bus, 2, 3, 1, 1);
    await bus.autodrop(2);
    const { ever } = await bus.gaps('alice');
    const { grants } = await bus.acquire(['w1']);
    assert.deepEqual([grants[0]?.job, grants[0]?.gap], ['ac1', ever]);
    assert.deepEqual(await bus.gaps('alice'), { next: null, carried: ever, ever });
    await bus.ack('w1', 'ac1');
    assert.deepEqual(await bus.gaps('alice'), { ...NOTHING, ever });
    assert.deepEqual(await told('w1'), { ad1: undefined });
  });

  test('with only one of several batches in flight', async () => {
    await aliceWithBatches(bus, 2, 1, 1, 1);
    await bus.autodrop(1);
    assert.deepEqual(await told('w1', 'w2'), { ab1: 2, ac1: undefined });
    await bus.ack('w2', 'ac1');
    assert.deepEqual(await told('w2'), { ad1: undefined });
    await bus.ack('w2', 'ad1');
    assert.equal((await bus.gaps('alice')).carried?.events, 2);
    await bus.ack('w1', 'ab1');
    assert.equal((await bus.gaps('alice')).carried, null);
  });

  test('with the same batch at every attempt; later drops go with the next batch', async () => {
    await aliceWithBatches(bus, 2, 3, 4, 1, 1);
    await bus.autodrop(1);
    await bus.acquire(['w1', 'w2']);
    await bus.nack('w2', 'ac1', { delayMs: 60_000 });
    await bus.autodrop(1);
    assert.equal((await bus.gaps('alice')).next?.events, 4);
    await bus.nack('w1', 'ab1');
    assert.deepEqual(await told('w1', 'w2'), { ab1: 2, ad1: undefined });
    await bus.ack('w1', 'ab1');
    const { next, carried } = await bus.gaps('alice');
    assert.deepEqual([next?.events, carried], [4, null]);
    assert.deepEqual(await told('w1'), { ae1: 4 });
  });

  test('again in the repeated reply to a worker whose first reply was lost', async () => {
    await aliceWithBatches(bus, 2, 1);
    await bus.autodrop(1);
    assert.deepEqual(await told('w1'), { ab1: 2 });
    assert.deepEqual(await told('w1'), { ab1: 2 });
  });

  test('with another batch, including later drops, if the batch that carried it is dropped or dies', async () => {
    await aliceWithBatches(bus, 1, 2, 1, 1, 1);
    await bus.autodrop(1);
    assert.deepEqual(await told('w1'), { ab1: 1 });
    await bus.nack('w1', 'ab1', { delayMs: 60_000 });
    await bus.autodrop(1);
    assert.deepEqual(await told('w1'), { ac1: 3 });
    await bus.bury('w1', 'ac1');
    assert.deepEqual(await told('w1'), { ad1: 3 });
    await bus.ack('w1', 'ad1');
    const { next, carried, ever } = await bus.gaps('alice');
    assert.deepEqual([next, carried, ever?.events], [null, null, 3]);
  });

  test('separately after the subscriber leaves and subscribes again: a batch of its former queue settles no notice', async () => {
    await aliceWithBatches(bus, 1, 1, 1);
    await bus.autodrop(1);
    assert.deepEqual(await told('w1'), { ab1: 1 });
    await bus.store.run('remove_subscriber', { token: 'alice', series: [] });
    await bus.subscribe('alice', { timeout: 0 });
    await publishEvents(bus, 'x', 'widgets', 1);
    await publishEvents(bus, 'y', 'widgets', 1);
    await bus.autodrop(1);
    await bus.ack('w1', 'ab1');
    assert.deepEqual((await bus.gaps('alice')).next?.events, 1);
  });
});

describe('whatever happens in whatever order', () => {
  const WORKERS = ['w1', 'w2', 'w3'];

  /** Collects the drop notices of batches that were taken, and the notice that each worker is delivering. */
  class Reader {
    readonly told: DropNotice[] = [];
    readonly #held = new Map<string, { job: string; gap: DropNotice | null | undefined }>();

    async acquire(workers: string[]): Promise<void> {
      const { grants } = await bus.acquire(workers);
      for (const { worker, job, gap } of grants) this.#held.set(worker, { job, gap });
    }

    async settle(worker: string, how: 'ack' | 'nack' | 'bury'): Promise<void> {
      const held = this.#held.get(worker);
      if (!held) return;
      this.#held.delete(worker);
      const settled = await bus[how](worker, held.job);
      assert.ok(settled === true || (settled !== false && settled.held));
      if (how === 'ack' && held.gap) this.told.push(held.gap);
    }
  }

  const sum = (gaps: (DropNotice | null)[]) => {
    const total: Record<string, number> = { batches: 0, events: 0 };
    const add = (field: string, n: number) => {
      total[field] = (total[field] ?? 0) + n;
    };
    for (const gap of gaps) {
      add('batches', gap?.batches ?? 0);
      add('events', gap?.events ?? 0);
      for (const [topic, n] of Object.entries(gap?.topics ?? {})) add(`topic:${topic}`, n);
    }
    return total;
  };

  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        publish: fc.constantFrom('widgets', 'gadgets'),
        n: fc.integer({ min: 1, max: 5 }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ acquire: fc.subarray(WORKERS, { minLength: 1 }) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        settle: fc.constantFrom(...WORKERS),
        how: fc.constantFrom('ack', 'nack', 'bury'),
      }),
    },
    { weight: 2, arbitrary: fc.record({ drop: fc.integer({ min: 1, max: 3 }) }) },
  );

  test('each drop is announced once with an accepted batch, or is still to be announced', async () => {
    const property = fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
      await redis.flush();
      await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], timeout: 0, max: 3 });
      const reader = new Reader();
      const dropped = { batches: 0, events: 0 };
      for (const [index, each] of steps.entries()) {
        if ('publish' in each)
          await bus.publish(nthWord(index), each.publish, storedEvents(each.publish, each.n));
        else if ('acquire' in each) await reader.acquire(each.acquire);
        else if ('settle' in each) await reader.settle(each.settle, each.how as 'ack' | 'nack' | 'bury');
        else {
          const drop = await bus.autodrop(each.drop);
          dropped.batches += drop.batches;
          dropped.events += drop.dropped.alice ?? 0;
        }
      }
      const { next, carried, ever } = await bus.gaps('alice');
      assert.deepEqual({ batches: ever?.batches ?? 0, events: ever?.events ?? 0 }, dropped);
      assert.deepEqual(sum([...reader.told, next, carried]), sum([ever]));
      await assertConsistent(bus.store);
    });
    await fc.assert(property, { numRuns: 30 });
  });
});
