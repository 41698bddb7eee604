import assert from 'node:assert/strict';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { infoNumber } from '../../src/store/memory.ts';
import type { Partition } from '../../src/store/partition.ts';

/** Asserts that a sweep finds nothing: nothing was lost, left behind or miscounted. */
export async function assertNothingToSweep(store: Partition): Promise<void> {
  assert.deepEqual(await sweep(store), [], 'a sweep finds nothing');
}

/** Returns the number of changes that Redis has ever made to its data. */
export async function writes({ redis }: Partition): Promise<number> {
  return infoNumber(await redis.info('persistence'), 'rdb_changes_since_last_save');
}
