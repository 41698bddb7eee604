import type { LatestStandings } from '../metrics/standings.ts';
import { DEFAULT_LISTED, nextLink, type Pages } from '../routing/paging.ts';
import { pickPage, placeOf, rankingBy } from '../routing/picking.ts';
import type { Topic, Topics } from './topic.ts';

/**
 * The ways to sort topics. Each function returns the value to sort by, from the rate of a topic, and the smallest value
 * comes first. Topics with the same value are sorted by name.
 */
const VALUES = {
  name: () => 0,
  rate: (rate) => -rate,
} satisfies Record<string, (rate: number) => number>;

export type TopicSort = keyof typeof VALUES;
export const TOPIC_SORTS = Object.keys(VALUES) as [TopicSort, ...TopicSort[]];

interface ListingParts {
  topics: Pick<Topics, 'names' | 'read'>;
  standings: Pick<LatestStandings, 'get'>;
  pages: Pages;
}

interface SortedCall {
  path: string;
  query: {
    sort: TopicSort;
    name?: string | undefined;
    limit?: number | undefined;
    after?: string | undefined;
  };
}

/** Returns a function that lists topics in pages, sorted by name or by the rates of the last sample. */
export function sortedTopics({ topics, standings, pages }: ListingParts) {
  return async ({ path, query: { after, ...query } }: SortedCall) => {
    const { sort, name: text = '', limit = DEFAULT_LISTED } = query;
    const listing = `${path} ${sort}`;
    const place = after && (await pages.open(listing, 'after', after));
    const [names, known] = await Promise.all([topics.names(), standings.get()]);
    const figureOf: (rate: number) => number = VALUES[sort];
    const rankOf = (name: string) => ({ value: figureOf(known?.topicRates.get(name) ?? 0), name });
    const matches = (name: string) => name.includes(text);
    const { page, last, priceInCalls } = pickPage(names, { ...rankingBy(rankOf, place), matches, limit });
    const order = page.map(({ name }) => name);
    const found = new Map((await topics.read(order)).map((each) => [each.name, each]));
    const entries = order.flatMap((name): Topic[] => {
      const [topic, rate] = [found.get(name), known?.topicRates.get(name)];
      if (!topic) return [];
      return [{ ...topic, lately: known && rate !== undefined ? { rate, as_of: known.atMs } : null }];
    });
    const headers = last && nextLink(path, { ...query, after: await pages.seal(listing, placeOf(last)) });
    return { entries, headers, priceInCalls };
  };
}
