import type { Gap } from '../subscribing/gap.ts';

/** Receivers refuse headers of more than 8 or 16 KB; a name has 64 characters at most. */
const MOST_TOPICS = 50;

/**
 * A gap as a dictionary of structured fields (RFC 9651), those topics first of which most is missing:
 * `batches=2, events=150, from=1700000000000, to=1700000001000, topics=("widgets";events=100 "users";events=50)`.
 * `more` counts topics that are not listed.
 */
export function gapHeader({ batches, events, fromMs, toMs, topics }: Gap): string {
  const sorted = Object.entries(topics).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  const listed = sorted.slice(0, MOST_TOPICS).map(([topic, missing]) => `"${topic}";events=${missing}`);
  const more = sorted.length > MOST_TOPICS ? `, more=${sorted.length - MOST_TOPICS}` : '';
  return `batches=${batches}, events=${events}, from=${fromMs}, to=${toMs}, topics=(${listed.join(' ')})${more}`;
}
