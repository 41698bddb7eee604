import type { Seen } from './batches.ts';
import { slices, type Walk } from './walk.ts';

/** Corrects the stored number of records in each subscriber's two delivery logs, and then the total of all logs. */
export async function sweepRecords(walk: Walk, seen: Seen): Promise<void> {
  const taken = Array.from(seen.of('deliveries_taken'), (token) => `taken ${token}`);
  const dropped = Array.from(seen.of('deliveries_dropped'), (token) => `dropped ${token}`);
  for (const names of slices([...taken, ...dropped])) await walk.repair('sweep_deliveries', { names });
  for await (const names of walk.members('deliveries_logs'))
    await walk.repair('sweep_deliveries', { names: names.map(String) });
  if (!walk.aborted) await walk.repair('sweep_deliveries', { names: [] });
}
