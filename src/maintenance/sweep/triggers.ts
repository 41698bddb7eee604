import type { Seen } from './batches.ts';
import { slices, type Walk } from './walk.ts';

/** Repairs triggers, and their entries in `triggers:due`. */
export async function sweepTriggers(walk: Walk, seen: Seen): Promise<void> {
  // The entries that `triggers:due` should have: `{name} {token}` for each trigger that the sweep has seen.
  const triggers = new Set(seen.keys('trigger').map(({ parts: [client, name] }) => `${name} ${client}`));
  const check = async (names: string[]) => {
    const others = names.filter((name) => !triggers.has(name));
    if (others.length > 0) await walk.repair('sweep_triggers', { names: others });
  };
  for (const names of slices(triggers)) await walk.repair('sweep_triggers', { names });
  for (const client of seen.of('triggers_of'))
    for await (const names of walk.members('triggers_of', client))
      await check(names.map((name) => `${name} ${client}`));
  for await (const members of walk.members('triggers_due')) await check(members.map(String));
}
