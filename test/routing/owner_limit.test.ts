import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { clock } from '../../src/clock.ts';
import { OwnerLimit } from '../../src/routing/owner_limit.ts';

test('an owner has eight works under way, and the others wait in their order; failures free their place', async () => {
  const limit = new OwnerLimit(8);
  const begun: string[] = [];
  const ends: ((failure?: Error) => void)[] = [];
  const work = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push(name);
      ends.push((failure) => (failure ? reject(failure) : resolve(name)));
    });
  const names = Array.from({ length: 10 }, (_, n) => `a${n}`);
  const results = names.map((name) => limit.run('a', work(name)));
  const other = limit.run('b', work('b0'));
  assert.deepEqual(begun, [...names.slice(0, 8), 'b0']);
  const failed = assert.rejects(results[0] as Promise<string>, /full/);
  ends[0]?.(new Error('full'));
  await failed;
  await turn();
  assert.deepEqual(begun.slice(9), ['a8']);
  ends[1]?.();
  assert.equal(await results[1], 'a1');
  await turn();
  assert.deepEqual(begun.slice(9), ['a8', 'a9']);
  for (const end of ends) end();
  await Promise.all([...results.slice(1), other]);
  const again = limit.run('a', work('a10'));
  assert.equal(begun.at(-1), 'a10');
  ends.at(-1)?.();
  assert.equal(await again, 'a10');
});

test('work that has waited begins after a pause, as long as the work before it took or maxPauseMs', async (t) => {
  let nowMs = 0;
  t.mock.method(clock, 'monotonicMs', () => nowMs);
  const limit = new OwnerLimit(1, 300);
  const long = Promise.withResolvers<void>();
  const first = limit.run('a', () => long.promise);
  let begunAtMs: number | undefined;
  const second = limit.run('a', async () => {
    begunAtMs = performance.now();
  });
  nowMs = 1000;
  const endedAtMs = performance.now();
  long.resolve();
  await first;
  for (let i = 0; i < 10; i++) await turn();
  assert.equal(begunAtMs, undefined);
  await second;
  const pauseMs = Number(begunAtMs) - endedAtMs;
  assert.ok(pauseMs >= 299 && pauseMs < 1000, `${pauseMs}`);
  // Work that need not wait begins at once, however long the work before it took.
  let isBegun = false;
  const third = limit.run('a', async () => {
    isBegun = true;
  });
  assert.ok(isBegun);
  await third;
});
