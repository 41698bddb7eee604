import { slices, type Walk } from './walk.ts';

/**
 * Corrects the counts of delivery logs: of those `seen` as keys, of those that `deliveries:logs` lists, and
 * the total.
 */
export async function sweepRecords(walk: Walk, seen: Iterable<string>): Promise<void> {
  for (const names of slices(seen)) await walk.repair('sweep_deliveries', { names });
  const logs = walk.partition.keys.deliveries_logs();
  for await (const names of walk.members('zset', logs))
    await walk.repair('sweep_deliveries', { names: names.map(String) });
  if (!walk.aborted) await walk.repair('sweep_deliveries', { names: [] });
}
