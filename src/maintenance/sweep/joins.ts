import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/** Repairs what Redis stores about joins and their open keys. */
export async function sweepJoins(
  walk: Walk,
  { joining, joins }: Pick<Seen, 'joining' | 'joins'>,
): Promise<void> {
  const { keys } = walk.partition;
  for (const client of joining)
    for await (const names of walk.members('set', keys.joins_of(client)))
      await walk.repair('sweep_joins', { where: 'joins_of', token: client, names });
  for await (const names of walk.members('set', keys.joins()))
    await walk.repair('sweep_joins', { where: 'joins', names });
  for await (const names of walk.members('hash', keys.joins_into()))
    await walk.repair('sweep_joins', { where: 'joins_into', names });
  for await (const names of walk.members('zset', keys.joins_expiring()))
    await walk.repair('sweep_joins', { where: 'joins_expiring', names });
  for (const token of joins) {
    for await (const names of walk.members('hash', keys.open_keys(token)))
      await walk.repair('sweep_joins', { where: 'open_keys', token, names });
    for await (const names of walk.members('zset', keys.open_keys_since(token)))
      await walk.repair('sweep_joins', { where: 'open_keys_since', token, names });
  }
}
