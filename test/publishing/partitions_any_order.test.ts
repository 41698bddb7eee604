import { test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { crossesOnce } from '../model/crossing_property.ts';

const redis = new TestStore();
const MAX_STEPS = 100;

// About 500 steps; `npm run properties` makes as many as its --steps asks for.
test('in several partitions, each event arrives once, in order, whatever is changed at the same time or fails', async (t) => {
  let steps = 0;
  const partitions = () => Partitions.on(redis.store.redis, { partitions: 3 });
  await fc.assert(
    crossesOnce(partitions, MAX_STEPS, () => steps++),
    { numRuns: 8 },
  );
  t.diagnostic(`${steps} steps`);
});
