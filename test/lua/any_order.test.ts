import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Bus } from '../support/bus.ts';
import { assertConsistent } from '../support/invariants.ts';
import { nthWord } from '../support/names.ts';
import { TestStore } from '../support/store.ts';

const redis = new TestStore();
const TOKENS = ['alice', 'bob'];
const WORKERS = ['w1', 'w2', 'w3'];

/** A bus on which anybody may do anything at any time, and what must have become of every event. */
class Chaos {
  readonly bus = new Bus(() => redis.store);
  /** By subscriber: the events in the order of acceptance. */
  readonly accepted: Record<string, string[]> = { alice: [], bob: [] };
  readonly delivered: Record<string, number> = { alice: 0, bob: 0 };
  readonly dropped: Record<string, number> = { alice: 0, bob: 0 };
  readonly #subscribed = new Map<string, string[]>();
  #calls = 0;
  #events = 0;

  async subscribe(token: string, topics: string[], max: number, timeout: number): Promise<void> {
    await this.bus.subscribe(token, { topics, max, timeout });
    this.#subscribed.set(token, topics);
  }

  async leave(token: string): Promise<void> {
    await this.bus.store.run('remove_subscriber', token);
    this.#subscribed.delete(token);
  }

  async publish(topic: string, n: number): Promise<void> {
    const events = Array.from({ length: n }, () => `e${this.#events++}`);
    await this.bus.publish(nthWord(this.#calls++), topic, events);
    for (const [token, topics] of this.#subscribed) {
      if (topics.includes(topic)) this.accepted[token]?.push(...events);
    }
  }

  async settle(worker: string, how: 'ack' | 'nack' | 'later'): Promise<void> {
    const { main, batches } = await this.bus.state();
    const job = main.pending[worker]?.[0];
    // Without a job of its own it tries with somebody else's, which must change nothing.
    const named = job ?? main.index[0] ?? 'nothing1';
    const token = batches[named]?.token ?? '';
    if (how === 'ack') {
      const { held, removed } = await this.bus.ack(worker, named);
      assert.equal(held, job !== undefined);
      if (held) this.delivered[token] = (this.delivered[token] ?? 0) + removed;
    } else {
      const options = how === 'later' ? { delayMs: 1, damage: 2, throttleMs: 1 } : {};
      assert.equal(await this.bus.nack(worker, named, options), job !== undefined);
    }
  }

  async drop(token: string | undefined, n: number): Promise<void> {
    const dropped = token
      ? { [token]: (await this.bus.dropQueue(token, n)).events }
      : (await this.bus.autodrop(n)).dropped;
    for (const [each, events] of Object.entries(dropped))
      this.dropped[each] = (this.dropped[each] ?? 0) + events;
  }

  /** Everything holds together, every event is somewhere, and each batch has its events in the order of acceptance. */
  async check(): Promise<void> {
    await assertConsistent(this.bus.store);
    const { gauges, batches } = await this.bus.state();
    for (const token of TOKENS) {
      const accounted =
        (gauges.events[token] ?? 0) + (this.delivered[token] ?? 0) + (this.dropped[token] ?? 0);
      assert.equal(
        accounted,
        this.accepted[token]?.length,
        `${token}: queued + delivered + dropped = accepted`,
      );
    }
    for (const { token, events } of Object.values(batches)) {
      const from = this.accepted[token]?.indexOf(events[0] ?? '') ?? -1;
      assert.deepEqual(events, this.accepted[token]?.slice(from, from + events.length));
    }
  }
}

const token = fc.constantFrom(...TOKENS);
const topic = fc.constantFrom('widgets', 'gadgets');
const worker = fc.constantFrom(...WORKERS);

interface Step {
  run: (chaos: Chaos) => Promise<unknown>;
}

/** A call with some arguments, `weight` times as frequent as others, which a counterexample shows by its name. */
function call<A extends unknown[]>(
  weight: number,
  name: string,
  args: fc.Arbitrary<A>,
  run: (chaos: Chaos, ...args: A) => Promise<unknown>,
): { weight: number; arbitrary: fc.Arbitrary<Step> } {
  const step = (given: A) => ({
    run: (chaos: Chaos) => run(chaos, ...given),
    [fc.toStringMethod]: () => `${name}(${JSON.stringify(given).slice(1, -1)})`,
  });
  return { weight, arbitrary: args.map(step) };
}

const few = fc.integer({ min: 1, max: 3 });
const events = fc.integer({ min: 1, max: 7 });
const topics = fc.subarray(['widgets', 'gadgets']);
const settings = fc.tuple(token, topics, fc.integer({ min: 1, max: 5 }), fc.constantFrom(0, 1, 60_000));
const outcome = fc.constantFrom<('ack' | 'nack' | 'later')[]>('ack', 'ack', 'nack', 'later');
const someWorkers = fc.subarray(WORKERS, { minLength: 1 });

const step = fc.oneof(
  call(6, 'publish', fc.tuple(topic, events), (c, ...args) => c.publish(...args)),
  call(4, 'acquire', fc.tuple(someWorkers), (c, some) => c.bus.acquire(some, { laneLimit: 1 })),
  call(4, 'settle', fc.tuple(worker, outcome), (c, ...args) => c.settle(...args)),
  call(2, 'subscribe', settings, (c, ...args) => c.subscribe(...args)),
  call(2, 'schedule', fc.tuple(few), (c, n) => c.bus.schedule(n)),
  call(1, 'scrub', fc.tuple(fc.constantFrom(-1, 60_000)), (c, leaseMs) => c.bus.scrub(leaseMs)),
  call(1, 'autodrop', fc.tuple(few), (c, n) => c.drop(undefined, n)),
  call(1, 'leave', fc.tuple(token), (c, who) => c.leave(who)),
  call(1, 'drop_queue', fc.tuple(token, few), (c, ...args) => c.drop(...args)),
  call(1, 'retire', fc.tuple(someWorkers), (c, some) => c.bus.store.run('retire', 'main', ...some)),
  call(1, 'enqueue', fc.tuple(fc.constantFrom('scrub', 'monitor')), (c, job) => c.bus.enqueue(job, -1)),
  call(1, 'acquire_aux', fc.tuple(), (c) => c.bus.acquire(['x1'], { q: 'aux' })),
);

test('whatever is called in whatever order, all structures agree and no event is unaccounted for', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 50 }), async (steps) => {
      await redis.flush();
      const chaos = new Chaos();
      await chaos.subscribe('alice', ['widgets'], 3, 0);
      await chaos.subscribe('bob', ['widgets', 'gadgets'], 2, 60_000);
      for (const each of steps) {
        await each.run(chaos);
        await chaos.check();
      }
    }),
    { numRuns: 12 },
  );
});
