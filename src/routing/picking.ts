/**
 * Number of entries that count as one call in the caller's rate limit. Every entry that is read counts, shown or not,
 * because reading takes the time: 7 ms for 10,000 names. `pickPage` counts all entries that it is given. So a route
 * should filter them by `matches`, not before the call. A route that filters in another way, such as by Redis or before
 * `Pages.cut`, must add the cost of the entries left out. test/routing/listing_costs.test.ts checks this.
 */
export const ENTRIES_PER_CALL = 1000;

interface Picking<T, Rank> {
  /** Returns true for entries that are to be listed; by default all are. */
  matches?: (entry: T) => boolean;
  /**
   * Returns the rank of an entry: the value by which entries are sorted. `pickPage` returns the ranks on the page. The
   * caller finds the entries by their ranks.
   */
  rankOf: (entry: T) => Rank;
  /** Returns true for a rank that comes after the last rank of the previous page. */
  isAfter: (rank: Rank) => boolean;
  compare: (one: Rank, other: Rank) => number;
  limit: number;
}

/**
 * Returns one page of `all`, a list in any order. `last` is the last rank on the page, or undefined if no page follows.
 * `calls` is the cost of reading the whole list in the caller's rate limit.
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
  return { page, last, calls: all.length / ENTRIES_PER_CALL };
}

/**
 * Returns the first `count` entries of a list, sorted by `compare`. The rest of the list is not sorted, so ten thousand
 * entries take only a millisecond.
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
 * Returns the index of the first entry for which `isPast` is true, or the length of the list if there is none. It
 * searches in halves, so `isPast` must also be true for all later entries.
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
