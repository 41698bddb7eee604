/**
 * A long event counts as one copy (an event for one subscriber) per this many bytes. Storing them takes Redis as long
 * as storing a short event.
 */
export const BYTES_PER_COPY = 400;

/**
 * Maximum copies (events times subscribers) of one publication, and of one script call for an outbox, a join or
 * triggers. Such a script call leaves what exceeds its maximum to a later call. Making 100,000 copies blocks Redis for
 * 25 to 30 ms and takes up to 40 MB, and Redis does not interrupt a script when memory runs out.
 */
export const MAX_COPIES = {
  /** Maximum copies that one publication makes. A larger one is refused, unless it is a single event. */
  publication: 200_000,
  outbox: 100_000,
  join: 20_000,
  triggers: 5_000,
} as const;
