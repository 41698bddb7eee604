import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import { behavesAsTheModel } from '../model/property.ts';

const redis = new TestStore();
const LONGEST = 100;
/** A busy machine takes fewer steps, and looks for no shorter counterexample. */
const TIME_LIMIT_MS = 60_000;
const FEWEST_STEPS = 300;

// About 3,000 steps; `npm run properties` takes as many as it is asked for.
test('whatever is called in whatever order, the bus does what a plain model of it does', async (t) => {
  let steps = 0;
  const property = behavesAsTheModel(
    () => redis.store,
    LONGEST,
    () => steps++,
  );
  await fc.assert(property, { numRuns: 60, interruptAfterTimeLimit: TIME_LIMIT_MS });
  assert.ok(steps >= FEWEST_STEPS, `only ${steps} steps`);
  t.diagnostic(`${steps} steps`);
});
