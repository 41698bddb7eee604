import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { WorkBudget } from '../../src/http/work_budget.ts';

const busy = (ms: number) => {
  for (const endMs = performance.now() + ms; performance.now() < endMs; );
};

test('work items that arrive one by one begin at once', async () => {
  const budget = new WorkBudget();
  for (let i = 0; i < 3; i++) {
    assert.equal(budget.turn(), undefined);
    await turn();
    await turn();
  }
});

test('work beyond the budget of a turn continues in the next turns, in order, and other callbacks run in between', async () => {
  const budget = new WorkBudget(10);
  const heard: (number | string)[] = [];
  const work = async (name: number) => {
    const mine = budget.turn();
    if (mine) await mine;
    busy(4);
    heard.push(name);
  };
  const all = Promise.all(Array.from({ length: 12 }, (_, i) => work(i)));
  let isOver = false;
  const listen = async () => {
    while (!isOver) {
      await turn();
      heard.push('other');
    }
  };
  const others = listen();
  await all;
  isOver = true;
  await others;
  assert.deepEqual(
    heard.filter((each) => each !== 'other'),
    Array.from({ length: 12 }, (_, i) => i),
  );
  const longest = Math.max(
    ...heard
      .join()
      .split('other')
      .map((some) => some.split(',').filter(Boolean).length),
  );
  // Each item takes 4 ms. Between two other callbacks, a budget of 10 ms may be spent twice: three items each time.
  assert.ok(longest <= 6, `${longest} of 4 ms in twice 10: ${heard}`);
  await turn();
  await turn();
  assert.equal(budget.turn(), undefined, 'all is done');
});

test('owners take turns, however much of one waits', async () => {
  const budget = new WorkBudget(1);
  assert.equal(budget.turn(), undefined);
  const untilMs = performance.now() + 2;
  while (performance.now() < untilMs); // The budget of this turn of the event loop is spent.
  const heard: string[] = [];
  const work = async (owner: string) => {
    await budget.turn(owner);
    heard.push(owner);
  };
  await Promise.all(['many', 'many', 'many', 'many', 'one', 'many', 'other', 'one'].map(work));
  assert.deepEqual(heard, ['many', 'one', 'other', 'many', 'one', 'many', 'many', 'many']);
});
