import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Repairs what Redis stores about joins and their open keys. A key of a join is, for example, an order; it is open
 * until events of all sources of the join have come for it, or it expires.
 */
export async function sweepJoins(walk: Walk, seen: Seen): Promise<void> {
  for (const client of seen.of('joins_of'))
    for await (const names of walk.members('joins_of', client))
      await walk.repair('sweep_joins', { where: 'joins_of', token: client, names });
  for (const where of ['joins', 'joins_into', 'joins_expiring'] as const)
    for await (const names of walk.members(where)) await walk.repair('sweep_joins', { where, names });
  for (const token of seen.of('open_keys', 'open_keys_since'))
    for (const where of ['open_keys', 'open_keys_since'] as const)
      for await (const names of walk.members(where, token))
        await walk.repair('sweep_joins', { where, token, names });
}
