/**
 * How many bytes of a long event count as one copy (an event for one subscriber). Storing these bytes takes Redis as
 * long as storing a copy of a short event.
 */
export const BYTES_PER_COPY = 400;

/**
 * Maximum copies (events times subscribers) of one publication, and of one script call for an outbox, a join or
 * triggers. A script call stops at its maximum, and leaves the rest to a later call. The maximum protects Redis: making
 * 100,000 copies blocks it for 25 to 30 ms and takes up to 40 MB, and Redis does not interrupt a script when memory
 * runs out.
 */
export const MAX_COPIES = {
  /** Maximum copies that one publication makes. A larger one is refused, unless it is a single event. */
  publication: 200_000,
  outbox: 100_000,
  join: 20_000,
  triggers: 5_000,
} as const;
