import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import { behavesAsTheModel } from '../model/property.ts';

const redis = new TestStore();
const MAX_SEQUENCE_STEPS = 100;

// About 500 steps; `npm run properties` makes as many as its --steps asks for.
test('calls in any order leave the bus in the same state as a plain model', async (t) => {
  let steps = 0;
  const property = behavesAsTheModel(
    () => [redis.store],
    MAX_SEQUENCE_STEPS,
    () => steps++,
  );
  await fc.assert(property, { numRuns: 8 });
  assert.ok(steps > 0);
  t.diagnostic(`${steps} steps`);
});
