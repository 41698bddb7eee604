import { unpackField } from '../../metrics/counter_hash.ts';
import { subjectOf, totalField } from '../../metrics/series.ts';
import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Removes what earlier releases have left: topics that nobody uses, and counters about topics and subscribers that are
 * gone. These are no findings.
 */
export async function sweepLeftovers(walk: Walk, { owners }: Pick<Seen, 'owners'>): Promise<void> {
  const { keys } = walk.partition;
  const tidy = async (set: string, owner?: string) => {
    for await (const topics of walk.members('set', set))
      await walk.run('sweep_topics', { owner, topics: topics.map(String) });
  };
  for (const owner of owners) await tidy(keys.topics_owned(owner), owner);
  await tidy(keys.topics());
  for (const hash of [keys.counters(), keys.counters_reported()]) {
    for await (const fields of walk.members('hash', hash))
      await walk.run('fold', { series: fields.flatMap((field) => seriesIn(field) ?? []) });
  }
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
