import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clock } from '../../src/clock.ts';
import { Batcher, type CallLimit } from '../../src/store/batcher.ts';

interface Call {
  items: string[];
  succeed: () => void;
  fail: (error: Error) => void;
}

/** Makes a batcher whose calls the test ends as it likes. The result of an item is the item in capitals. */
function batching(limit: CallLimit<string> = { max: 1000 }) {
  const calls: Call[] = [];
  const batcher = new Batcher<string, string>((items) => {
    const { promise, resolve, reject } = Promise.withResolvers<string[]>();
    const succeed = () => resolve(items.map((item) => item.toUpperCase()));
    calls.push({ items, succeed, fail: reject });
    return promise;
  }, limit);
  const add = (...items: string[]) => Promise.allSettled(items.map((item) => batcher.add(item)));
  /** Resolves with the nth call, once it is made. */
  const call = async (n: number): Promise<Call> => {
    while (!calls[n]) await turn();
    return calls[n];
  };
  return { add, call, calls };
}

const results = (...values: string[]) => values.map((value) => ({ status: 'fulfilled', value }));
const letters = (count: number) => Array.from({ length: count }, (_, index) => `i${index}`);

/** Resolves when the code under test can do nothing more without another turn of the event loop. */
async function microtasks(): Promise<void> {
  for (let i = 0; i < 100; i++) await undefined;
}

/** One turn of the event loop. */
const turn = () => new Promise(setImmediate);

describe('a batcher', () => {
  test('lets owners take turns if more waits than fits into a call; the items of one stay in order', async () => {
    const ownerOf = (item: string) => item[0] as string;
    const weigh = (item: string) => (item.startsWith('big') ? 5 : 1);
    const { add, call } = batching({ max: 5, ownerOf, weigh });
    const answers = [add('big1', 'big2', 'big3', 'a1', 'a2', 'a3'), add('c1')];
    const groups: string[][] = [];
    for (let n = 0; n < 4; n++) {
      const { items, succeed } = await call(n);
      groups.push(items);
      succeed();
    }
    assert.deepEqual(groups, [['big1'], ['a1', 'a2', 'a3', 'c1'], ['big2'], ['big3']]);
    await Promise.all(answers);
  });

  test('pauses after a long call, as long as it took or maxPauseMs, and not after a short one', async (t) => {
    let nowMs = 0;
    t.mock.method(clock, 'monotonicMs', () => nowMs);
    const { add, call, calls } = batching({ max: 1, maxPauseMs: 300 });
    const answers = add('short', 'long', 'last');
    (await call(0)).succeed();
    const long = await call(1);
    nowMs = 1000;
    const beganMs = performance.now();
    long.succeed();
    for (let i = 0; i < 10; i++) await turn();
    assert.equal(calls.length, 2);
    (await call(2)).succeed();
    const pauseMs = performance.now() - beganMs;
    assert.ok(pauseMs >= 299 && pauseMs < 1000, `${pauseMs}`);
    assert.deepEqual(await answers, results('SHORT', 'LONG', 'LAST'));
  });

  test('makes one call for all items of a turn, in their order, and gives each its own result', async () => {
    const { add, call, calls } = batching();
    const answers = add('a', 'b', 'c');
    const { items, succeed } = await call(0);
    assert.deepEqual(items, ['a', 'b', 'c']);
    succeed();
    assert.deepEqual(await answers, results('A', 'B', 'C'));
    assert.equal(calls.length, 1);
  });

  test('waits for one turn of the event loop if few items wait, for two otherwise; never for a timer', async () => {
    const few = batching();
    void few.add('a', 'b');
    assert.ok(!process.getActiveResourcesInfo().includes('Timeout'));
    await microtasks();
    assert.equal(few.calls.length, 0);
    await turn();
    assert.deepEqual(few.calls[0]?.items, ['a', 'b']);

    const several = batching();
    void several.add('a', 'b', 'c', 'd');
    await turn();
    void several.add('e');
    assert.equal(several.calls.length, 0);
    await turn();
    assert.deepEqual(several.calls[0]?.items, ['a', 'b', 'c', 'd', 'e']);
  });

  test('waits for no turn when 128 items wait: a turn can be long', async () => {
    const { add, calls } = batching();
    void add(...letters(127));
    await microtasks();
    assert.equal(calls.length, 0);
    void add('last');
    await microtasks();
    assert.equal(calls[0]?.items.length, 128);

    void add(...letters(200));
    calls[0]?.succeed();
    await microtasks();
    assert.equal(calls[1]?.items.length, 200, 'those that arrived during a call go when it ends');
  });

  test('keeps items that arrive during a call for the next one', async () => {
    const { add, call, calls } = batching();
    void add('a');
    const first = await call(0);
    const later = add('b', 'c');
    await turn();
    await turn();
    assert.equal(calls.length, 1, 'one call is under way at a time');
    first.succeed();
    const second = await call(1);
    second.succeed();
    assert.deepEqual(second.items, ['b', 'c']);
    assert.deepEqual(await later, results('B', 'C'));
  });

  test('bounds a call by the number of its items', async () => {
    const { add, call } = batching({ max: 2 });
    void add('a', 'b', 'c');
    const first = await call(0);
    assert.deepEqual(first.items, ['a', 'b']);
    first.succeed();
    assert.deepEqual((await call(1)).items, ['c']);
  });

  test('bounds a call by the weight of its items; an item that is too heavy goes alone', async () => {
    const { add, call, calls } = batching({ max: 4, weigh: (item) => item.length });
    const answers = add('aa', 'bb', 'c', 'dddddd', 'e', 'fff');
    for (let n = 0; n < 4; n++) (await call(n)).succeed();
    await answers;
    assert.deepEqual(
      calls.map(({ items }) => items),
      [['aa', 'bb'], ['c'], ['dddddd'], ['e', 'fff']],
    );
  });

  test('rejects the items of a failed call with its error, and goes on with the others', async () => {
    const { add, call } = batching({ max: 2 });
    const answers = add('a', 'b', 'c');
    const reason = new Error('Redis is away');
    (await call(0)).fail(reason);
    (await call(1)).succeed();
    const rejected = { status: 'rejected', reason };
    assert.deepEqual(await answers, [rejected, rejected, ...results('C')]);
  });
});
