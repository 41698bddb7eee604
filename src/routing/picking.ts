/**
 * Reading this many entries counts as one call in the caller's rate limit, even if they are not shown, because reading
 * takes time: 7 ms for 10,000 names. `pickPage` counts the entries that it is given. A route that reads more entries
 * must add their cost itself.
 */
export const ENTRIES_PER_CALL = 1000;

interface Picking<T, Rank> {
  matches?: (entry: T) => boolean;
  /**
   * Returns the rank of an entry: the value by which entries are sorted. No two entries may have the same rank, so it
   * contains, for example, a token. `pickPage` returns ranks only, and its callers find the entries by them.
   */
  rankOf: (entry: T) => Rank;
  /** True for a rank that comes after the last rank of the previous page. */
  isAfter: (rank: Rank) => boolean;
  compare: (one: Rank, other: Rank) => number;
  limit: number;
}

/**
 * Returns a page of `all`, a list in any order: the sorted ranks (see `rankOf`) of its entries as `page`, and the last
 * of them as `last`, which is undefined if no page follows. The result also has `priceInCalls`: as how many calls the
 * reading of `all` counts in the caller's rate limit.
 */
export function pickPage<T, Rank>(all: readonly T[], picking: Picking<T, Rank>) {
  const { matches = () => true, rankOf, isAfter, compare, limit } = picking;
  const rest: Rank[] = [];
  for (const entry of all) {
    const rank = matches(entry) ? rankOf(entry) : undefined;
    if (rank !== undefined && isAfter(rank)) rest.push(rank);
  }
  const first = pickFirst(rest, limit + 1, compare);
  const page = first.slice(0, limit);
  const last = first.length > limit ? page.at(-1) : undefined;
  return { page, last, priceInCalls: all.length / ENTRIES_PER_CALL };
}

/**
 * Returns the first `count` entries of a list, sorted by `compare`. The other entries are not sorted, so even ten
 * thousand take only a millisecond.
 */
function pickFirst<T>(all: Iterable<T>, count: number, compare: (one: T, other: T) => number): T[] {
  const first: T[] = [];
  for (const entry of all) {
    const last = first.at(-1);
    if (first.length === count && last !== undefined && compare(entry, last) >= 0) continue;
    const index = firstIndex(first, (each) => compare(each, entry) >= 0);
    first.splice(index, 0, entry);
    if (first.length > count) first.pop();
  }
  return first;
}

/**
 * Returns the index of the first entry for which `isPast` is true, or the length of the list. `isPast` must be true for
 * all later entries too, because this is a binary search.
 */
export function firstIndex<T>(list: readonly T[], isPast: (entry: T) => boolean): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isPast(list[middle] as T)) to = middle;
    else from = middle + 1;
  }
  return from;
}
