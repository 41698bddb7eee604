import type { LatestStandings } from '../metrics/standings.ts';
import type { Page, Pages } from '../routing/paging.ts';
import type { Topic, Topics } from './topic.ts';

/**
 * For each way to sort topics, a function of a topic's rate (events a second) that returns the value to sort by. The
 * smallest value comes first, and equal values are sorted by name.
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

/**
 * Returns a function that lists topics in pages, sorted by name or by rate. The rates are from the last run of the job
 * `sample`.
 */
export function sortedTopics({ topics, standings, pages }: ListingParts) {
  return async (call: SortedCall): Promise<Page<Topic>> => {
    const { sort, name: text = '' } = call.query;
    const [names, known] = await Promise.all([topics.names(), standings.get()]);
    const page = await pages.cutRanked(call, sort, names, {
      rankOf: (name) => ({ value: VALUES[sort](known?.topicRates.get(name) ?? 0), name }),
      matches: (name) => name.includes(text),
    });
    const found = new Map((await topics.read(page.entries)).map((each) => [each.name, each]));
    const entries = page.entries.flatMap((name): Topic[] => {
      const [topic, rate] = [found.get(name), known?.topicRates.get(name)];
      if (!topic) return [];
      return [{ ...topic, lately: known && rate !== undefined ? { rate, as_of: known.atMs } : null }];
    });
    return { ...page, entries };
  };
}
