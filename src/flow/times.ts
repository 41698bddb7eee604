/** The times of a schedule, in ms since the Unix epoch. */
export interface Times {
  /** Returns the earliest time after `afterMs`; undefined if there is none. */
  next(afterMs: number): number | undefined;
  /** Returns the latest time before `beforeMs`; undefined if there is none. */
  previous(beforeMs: number): number | undefined;
  /** Returns the number of times after `afterMs`, up to and including `upToMs`. */
  count(afterMs: number, upToMs: number): number;
}
