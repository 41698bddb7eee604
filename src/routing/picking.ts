/**
 * Number of entries whose reading costs one call in the caller's rate limit, even if the page does not show them:
 * reading 10,000 names takes 7 ms. `pickPage` counts the entries of its list. A route that reads other entries too must
 * add their cost.
 */
export const ENTRIES_PER_CALL = 1000;

/** What a listing is sorted by: `value`, the smallest first, and then `name`. No two entries have the same name. */
export interface Rank {
  value: number;
  name: string;
}

const compare = (one: Rank, other: Rank) =>
  one.value - other.value || (one.name < other.name ? -1 : Number(one.name > other.name));

interface Ranked<T> {
  entry: T;
  rank: Rank;
}

interface Picking<T> {
  matches?: (entry: T) => boolean;
  rankOf: (entry: T) => Rank;
  /** The rank of the last entry on the previous page. Undefined for the first page. */
  after: Rank | undefined;
  limit: number;
}

/**
 * Picks a page from `all`, a list in any order. Returns:
 * - `entries`: the entries on the page, sorted by rank;
 * - `last`: the rank of the last of them, or undefined if no page follows;
 * - `priceInCalls`: what reading `all` costs in the caller's rate limit, in calls.
 */
export function pickPage<T>(all: readonly T[], picking: Picking<T>) {
  const { matches = () => true, rankOf, after, limit } = picking;
  const rest: Ranked<T>[] = [];
  for (const entry of all) {
    if (!matches(entry)) continue;
    const rank = rankOf(entry);
    if (after === undefined || compare(rank, after) > 0) rest.push({ entry, rank });
  }
  const first = pickFirst(rest, limit + 1);
  const page = first.slice(0, limit);
  const last = first.length > limit ? page.at(-1)?.rank : undefined;
  return { entries: page.map(({ entry }) => entry), last, priceInCalls: all.length / ENTRIES_PER_CALL };
}

/**
 * Returns the first `count` entries of a list, sorted by rank. The rest of the list is not sorted, so a list of ten
 * thousand takes only a millisecond.
 */
function pickFirst<T>(all: readonly Ranked<T>[], count: number): Ranked<T>[] {
  const first: Ranked<T>[] = [];
  for (const each of all) {
    const last = first.at(-1);
    if (first.length === count && last !== undefined && compare(each.rank, last.rank) >= 0) continue;
    const index = firstIndex(first, ({ rank }) => compare(rank, each.rank) >= 0);
    first.splice(index, 0, each);
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
