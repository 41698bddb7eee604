/**
 * A copy is an event for one subscriber. Redis stores this number of bytes in the time in which it stores a copy of a
 * short event, so a long event counts as several copies.
 */
export const BYTES_PER_COPY = 400;

/**
 * Maximum copies that one script call makes. 100,000 block Redis for 25 to 30 ms, and take 40 MB at most. Of the calls,
 * all but a publish stop behind the event or outbox entry that reaches the maximum. The limits also bound the memory of
 * a script, which Redis does not interrupt when it runs out of memory.
 */
export const MAX_COPIES = {
  /** Of one publication, which is refused if it makes more. */
  publication: 200_000,
  /** Of the entries of outboxes that another partition applies. */
  outbox: 100_000,
  /** Of the events that one join publishes. */
  join: 20_000,
  /** Of the events that triggers publish. */
  triggers: 5_000,
} as const;
