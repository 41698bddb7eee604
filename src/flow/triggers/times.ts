/** The times of a schedule, in ms since the Unix epoch. */
export interface Times {
  next(afterMs: number): number | undefined;
  previous(beforeMs: number): number | undefined;
  /** Counts the times of the schedule that are later than `afterMs`, but not later than `upToMs`. */
  count(afterMs: number, upToMs: number): number;
}
