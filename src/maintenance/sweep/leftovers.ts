import { unpackField } from '../../metrics/counter_hash.ts';
import { subjectOf, totalField } from '../../metrics/series.ts';
import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Tidies up after earlier releases. Their leftovers are no inconsistency, so no finding is reported. Deletes topics
 * that nobody uses, and corrects the list of the topics that each client owns. Adds the counters (metrics) of removed
 * topics and subscribers to the totals of all removed ones.
 */
export async function sweepLeftovers(walk: Walk, seen: Seen): Promise<void> {
  const tidy = (topics: Buffer[], owner?: string) =>
    walk.runForEach('sweep_topics', { owner, topics: topics.map(String) });
  for (const owner of seen.of('topics_owned'))
    for await (const topics of walk.members('topics_owned', owner)) await tidy(topics, owner);
  for await (const topics of walk.members('topics')) await tidy(topics);
  for (const name of ['counters', 'counters_reported'] as const)
    for await (const fields of walk.members(name))
      await walk.skippable(walk.run('fold', { series: fields.flatMap((field) => seriesIn(field) ?? []) }));
}

/**
 * Returns the topic or subscriber of a counter. Also returns the total to which the script `fold` adds the counter if
 * that topic or subscriber was removed. Returns undefined for a counter of the whole bus. `field` is the counter's name
 * and tags, packed.
 */
function seriesIn(field: Buffer) {
  const { name = '', tags = {} } = unpackField(field) ?? {};
  const subject = subjectOf(name, tags);
  return subject && { field, total: totalField(name, tags), ...subject };
}
