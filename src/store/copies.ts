/**
 * A long event counts as several copies (a copy is an event for one subscriber): one for each 400 bytes. Storing 400
 * bytes of a long event takes Redis as long as storing a short event.
 */
export const BYTES_PER_COPY = 400;

/**
 * Maximum copies (events times subscribers) of one script call for an outbox, a join or triggers. If it has more to do,
 * later calls do the rest. Making 100,000 copies blocks Redis for 25 to 30 ms and takes up to 40 MB, and Redis does not
 * interrupt a script when memory runs out.
 */
export const MAX_COPIES = {
  outbox: 100_000,
  join: 20_000,
  triggers: 5_000,
} as const;
