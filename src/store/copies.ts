/**
 * Bytes that count as one copy (an event for one subscriber). Storing this many bytes takes Redis as long as storing a
 * copy of a short event, so a long event counts as several copies.
 */
export const BYTES_PER_COPY = 400;

/**
 * Maximum copies that one publication makes, or one script call for an outbox, a join or triggers. A copy is an event
 * for one subscriber. The maximum protects Redis: making 100,000 copies blocks it for 25 to 30 ms and takes 40 MB at
 * most, and Redis does not interrupt a script when memory runs out. A publication with more copies is refused. Any
 * other script call that reaches its maximum leaves the remaining events or outbox entries to a later call.
 */
export const MAX_COPIES = {
  /** A publication that makes more copies is refused, unless it is a single event. */
  publication: 200_000,
  /** Maximum copies that a script call makes of events from the outbox of another partition. */
  outbox: 100_000,
  /** Maximum copies that a script call makes of the events that a join publishes. */
  join: 20_000,
  /** Maximum copies that a script call makes of the events that triggers publish. */
  triggers: 5_000,
} as const;
