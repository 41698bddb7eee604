import assert from 'node:assert/strict';
import { test } from 'node:test';
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
  assert.deepEqual(begun.slice(9), ['a8']);
  ends[1]?.();
  assert.equal(await results[1], 'a1');
  assert.deepEqual(begun.slice(9), ['a8', 'a9']);
  for (const end of ends) end();
  await Promise.all([...results.slice(1), other]);
  const again = limit.run('a', work('a10'));
  assert.equal(begun.at(-1), 'a10');
  ends.at(-1)?.();
  assert.equal(await again, 'a10');
});
