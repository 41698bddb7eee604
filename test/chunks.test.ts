import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunksOf } from '../src/chunks.ts';

test('a list comes in chunks, in its order, and the last one may be shorter', async () => {
  assert.deepEqual(await Array.fromAsync(chunksOf([1, 2, 3, 4, 5], 2)), [[1, 2], [3, 4], [5]]);
});

test('an empty list has no chunks', async () => {
  assert.deepEqual(await Array.fromAsync(chunksOf([], 2)), []);
});

test('other work of the event loop is done between two chunks', async () => {
  const done: string[] = [];
  for await (const [first] of chunksOf(['one', 'two', 'three'], 1)) {
    done.push(`chunk ${first}`);
    setImmediate(() => done.push('other work'));
  }
  assert.deepEqual(done, ['chunk one', 'other work', 'chunk two', 'other work', 'chunk three']);
});
