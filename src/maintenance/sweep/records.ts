import { slices, type Walk } from './walk.ts';

/**
 * Corrects the stored numbers of records in delivery logs, and the sum of these numbers. Checks the logs that were
 * `seen` as keys, and those that `deliveries:logs` lists.
 */
export async function sweepRecords(walk: Walk, seen: Iterable<string>): Promise<void> {
  for (const names of slices(seen)) await walk.repair('sweep_deliveries', { names });
  const logs = walk.partition.keys.deliveries_logs();
  for await (const names of walk.members('zset', logs))
    await walk.repair('sweep_deliveries', { names: names.map(String) });
  if (!walk.aborted) await walk.repair('sweep_deliveries', { names: [] });
}
