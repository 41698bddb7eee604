/** What the bus has dropped from a subscriber's queue and dead letters, because memory was short. */
export interface DropNotice {
  batches: number;
  events: number;
  /** Times at which the oldest and the newest of the dropped batches were created, by Redis's clock. */
  fromMs: number;
  toMs: number;
  /** Number of dropped events by topic. The events whose topic is unreadable are counted under an empty name. */
  topics: Record<string, number>;
}

const TOPIC_PREFIX = 'topic:';

/**
 * Maximum topics in the header. A topic's name has up to 64 characters, and many receivers accept only 8 KB of headers.
 */
const MAX_TOPICS = 50;

/** Reads a hash that lua/delivering/drop_notices.lua has written. Returns null if nothing was dropped. */
export function readDropNotice(hash: Readonly<Record<string, string>>): DropNotice | null {
  if (hash.batches === undefined) return null;
  const topics = Object.entries(hash).filter(([field]) => field.startsWith(TOPIC_PREFIX));
  return {
    batches: Number(hash.batches),
    events: Number(hash.events),
    fromMs: Number(hash.from),
    toMs: Number(hash.to),
    topics: Object.fromEntries(
      topics.map(([field, events]) => [field.slice(TOPIC_PREFIX.length), Number(events)]),
    ),
  };
}

/**
 * Returns the value of the header `Routemaster-Gap`, a dictionary of structured fields (RFC 9651), such as `batches=2,
 * events=150, from=1700000000000, to=1700000001000, topics=("widgets";events=100 "users";events=50)`. The topics that
 * lost the most events come first. If not all topics fit, `more` is the number of those left out.
 */
export function dropNoticeHeader({ batches, events, fromMs, toMs, topics }: DropNotice): string {
  const sorted = Object.entries(topics).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  const listed = sorted.slice(0, MAX_TOPICS).map(([topic, dropped]) => `"${topic}";events=${dropped}`);
  const more = sorted.length > MAX_TOPICS ? `, more=${sorted.length - MAX_TOPICS}` : '';
  return `batches=${batches}, events=${events}, from=${fromMs}, to=${toMs}, topics=(${listed.join(' ')})${more}`;
}
