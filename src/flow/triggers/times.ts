/** The times of a schedule, in ms since the Unix epoch. */
export interface Times {
  /** Returns the earliest time after `afterMs`; undefined if there is none. */
  next(afterMs: number): number | undefined;
  /** Returns the latest time before `beforeMs`; undefined if there is none. */
  previous(beforeMs: number): number | undefined;
  /** Counts the times of the schedule that are later than `afterMs`, but not later than `upToMs`. */
  count(afterMs: number, upToMs: number): number;
}
