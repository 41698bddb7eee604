/**
 * Number of entries that cost the caller's rate limit as much as one call. They cost this because they are read, even
 * if they are not shown: reading 10,000 names takes 7 ms. `pickPage` counts the entries of its list. A route that reads
 * others too must add their cost itself.
 */
export const ENTRIES_PER_CALL = 1000;

interface Picking<T, Rank> {
  matches?: (entry: T) => boolean;
  /**
   * Returns the rank of an entry: the value by which entries are sorted. Each rank must be unique, so it contains, for
   * example, the entry's token. `pickPage` returns only ranks, and its caller looks up the entries by them.
   */
  rankOf: (entry: T) => Rank;
  /** True for a rank that comes after the last rank of the previous page. */
  isAfter: (rank: Rank) => boolean;
  compare: (one: Rank, other: Rank) => number;
  limit: number;
}

/**
 * Picks a page from `all`, a list in any order. Returns:
 * - `page`: the ranks (see `rankOf`) of the entries on the page, sorted;
 * - `last`: the last of these ranks, or undefined if no page follows;
 * - `priceInCalls`: what reading `all` costs in the caller's rate limit, in calls.
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
 * Returns the first `count` entries of a list in the order of `compare`. The rest of the list is not sorted, so a list
 * of ten thousand takes only a millisecond.
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
