import { unpackField } from '../../metrics/counter_hash.ts';
import { subjectOf, totalField } from '../../metrics/series.ts';
import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Removes what earlier releases have left: topics that nobody uses, and counters about topics and subscribers that are
 * gone. These are no findings.
 */
export async function sweepLeftovers(walk: Walk, { owners }: Pick<Seen, 'owners'>): Promise<void> {
  const tidy = (topics: Buffer[], owner?: string) =>
    walk.skippable(walk.run('sweep_topics', { owner, topics: topics.map(String) }));
  for (const owner of owners)
    for await (const topics of walk.members('topics_owned', owner)) await tidy(topics, owner);
  for await (const topics of walk.members('topics')) await tidy(topics);
  for (const name of ['counters', 'counters_reported'] as const)
    for await (const fields of walk.members(name))
      await walk.skippable(walk.run('fold', { series: fields.flatMap((field) => seriesIn(field) ?? []) }));
}

/**
 * Returns the topic or subscriber of a counter, its field in the hash `counters`, and `total`: the field to which its
 * count is added when the topic or subscriber is removed. Returns undefined for any other counter.
 */
function seriesIn(field: Buffer) {
  const { name = '', tags = {} } = unpackField(field) ?? {};
  const subject = subjectOf(name, tags);
  return subject && { field, total: totalField(name, tags), ...subject };
}
