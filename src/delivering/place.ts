/**
 * The place of a batch or dead letter in a listing, which is sorted by `atMs`, then by id. For a dead letter, `atMs` is
 * when it died. For any other batch, it is when the batch ended or, if it has not ended, when it was opened (ms with
 * three decimals).
 */
export interface Place {
  atMs: number;
  id: string;
}

/** Compares two places for a listing: the newest first, then descending ids, as Redis sorts them. */
export function newestFirst(one: Place, other: Place): number {
  if (one.atMs !== other.atMs) return other.atMs - one.atMs;
  if (one.id === other.id) return 0;
  return one.id < other.id ? 1 : -1;
}

/** Parses a place from the link to a next page: `atMs`, a dash, and the id, which may contain dashes. */
export function readPlace(text: string): Place {
  const dash = text.indexOf('-');
  return { atMs: Number(text.slice(0, dash)), id: text.slice(dash + 1) };
}
