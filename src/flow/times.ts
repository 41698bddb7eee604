/** Points in time, in ms since the Unix epoch. */
export interface Times {
  /** The first one after a time; undefined if none comes. */
  next(afterMs: number): number | undefined;
  /** The last one before a time. */
  previous(beforeMs: number): number | undefined;
  /** How many come after a time, up to another one. */
  count(afterMs: number, upToMs: number): number;
}
