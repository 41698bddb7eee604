import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LongPublishes } from '../../src/publishing/long_publishes.ts';

test('a client has eight long publishes under way, and the others wait in their order; failures free their place', async () => {
  const publishes = new LongPublishes();
  const begun: string[] = [];
  const ends: ((failure?: Error) => void)[] = [];
  const publish = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push(name);
      ends.push((failure) => (failure ? reject(failure) : resolve(name)));
    });
  const names = Array.from({ length: 10 }, (_, n) => `a${n}`);
  const results = names.map((name) => publishes.run('a', publish(name)));
  const other = publishes.run('b', publish('b0'));
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
  const again = publishes.run('a', publish('a10'));
  assert.equal(begun.at(-1), 'a10');
  ends.at(-1)?.();
  assert.equal(await again, 'a10');
});
