import { test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import { flowsOnce } from '../model/flow_property.ts';

const redis = new TestStore();
const MAX_STEPS = 100;

// About 300 steps; `npm run properties` makes as many as its --steps asks for.
test('triggers fire and joins count once, and no limit is exceeded, for any calls in any order', async (t) => {
  let steps = 0;
  await fc.assert(
    flowsOnce(
      () => redis.store,
      MAX_STEPS,
      () => steps++,
    ),
    { numRuns: 8 },
  );
  t.diagnostic(`${steps} steps`);
});
