/**
 * The rate limit charges a listing one call for reading this many entries, even if it does not show them: reading
 * 10,000 names takes 7 ms. `pickPage` counts the entries of its list. A route that reads other entries too must add
 * their cost itself.
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

/** The values by which a listing is sorted: `value`, the smallest first, and then `name`. */
interface Ranked {
  value: number;
  /** The token of a subscriber, or the name of a topic. */
  name: string;
}

const byValue = (one: Ranked, other: Ranked) =>
  one.value - other.value || (one.name < other.name ? -1 : Number(one.name > other.name));

/**
 * Returns what `pickPage` needs to sort a listing by `rankOf`. `after` is the place of the last entry on the previous
 * page.
 */
export function rankingBy<T>(rankOf: (entry: T) => Ranked, after: string | undefined) {
  const [value = '', name = ''] = after?.split(' ', 2) ?? [];
  const place = { value: Number(value), name };
  return {
    rankOf,
    isAfter: (each: Ranked) => after === undefined || byValue(each, place) > 0,
    compare: byValue,
  };
}

/**
 * Returns the text that `rankingBy` takes as `after`, so that the next page begins after this entry: the value to sort
 * by, a space and the name.
 */
export function placeOf({ value, name }: Ranked): string {
  return `${value} ${name}`;
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
