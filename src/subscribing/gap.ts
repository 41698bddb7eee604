/** What was dropped of a subscriber's queue. */
export interface Gap {
  /** Dead letters included. */
  batches: number;
  events: number;
  /** When the oldest and the newest of these batches were opened, ms by Redis's clock. */
  fromMs: number;
  toMs: number;
  /** How many of the events were of which topic; of '' those of which it cannot be read. */
  topics: Record<string, number>;
}

const TOPIC = 'topic:';

/** A hash as a script hands it out: field, value, … */
export function fieldsOf(flat: readonly (Buffer | string | number)[]): Record<string, string> {
  const hash: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) hash[String(flat[i])] = String(flat[i + 1]);
  return hash;
}

/** Reads a hash of drops, as lua/include/gaps.lua writes them; null where nothing was dropped. */
export function readGap(hash: Readonly<Record<string, string>>): Gap | null {
  if (hash.batches === undefined) return null;
  const topics = Object.entries(hash).filter(([field]) => field.startsWith(TOPIC));
  return {
    batches: Number(hash.batches),
    events: Number(hash.events),
    fromMs: Number(hash.from),
    toMs: Number(hash.to),
    topics: Object.fromEntries(topics.map(([field, events]) => [field.slice(TOPIC.length), Number(events)])),
  };
}
