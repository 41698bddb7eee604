import type { Clients } from '../authentication/client.ts';
import type { LatestStandings, Standing } from '../metrics/standings.ts';
import type { Caller } from '../routing/caller.ts';
import type { Page, Pages } from '../routing/paging.ts';
import {
  latelyOf,
  type SubscriberSort,
  type SubscriberState,
  subscriberRank,
  subscriberState,
  unknownStanding,
} from './ranking.ts';
import type { Subscribers } from './subscriber.ts';
import type { SubscriberReport } from './subscriber_report.ts';

interface ListingParts {
  subscribers: Pick<Subscribers, 'read' | 'members'>;
  standings: Pick<LatestStandings, 'get'>;
  clients: Pick<Clients, 'names'>;
  pages: Pages;
}

interface SortedCall {
  caller: Caller;
  path: string;
  query: {
    sort?: SubscriberSort | undefined;
    state?: SubscriberState | undefined;
    name?: string | undefined;
    limit?: number | undefined;
    after?: string | undefined;
  };
}

/**
 * Returns a function that lists subscribers in pages, sorted by token or by the figures of the last sample. Only the
 * reports of the subscribers on the page are read, so a page costs little more with 10,000 subscribers than with a few.
 */
export function sortedListing(parts: ListingParts, tokens: () => Promise<string[]>) {
  const { subscribers, standings, pages } = parts;

  /**
   * Resolves with the figures of all subscribers from the last sample. If that is outdated, or Redis now has another
   * number of subscribers, adds the new subscribers, with empty queues. If one subscriber has come and another has
   * left, the number is the same, and the new one is missing for some seconds.
   */
  const everybody = async (): Promise<readonly Standing[]> => {
    const known = await standings.get();
    if (known && !known.isOutdated && known.members === (await subscribers.members()))
      return known.subscribers;
    const all = new Map(known?.subscribers.map((each) => [each.token, each]));
    return (await tokens()).map((token) => all.get(token) ?? unknownStanding(token));
  };

  return async ({ caller, path, query }: SortedCall): Promise<Page<SubscriberReport>> => {
    const { sort = 'name', state, name } = query;
    const all = await everybody();
    const isNamed = await nameFilter(parts.clients, caller, name);
    const page = await pages.cutRanked({ path, query }, sort, all, {
      rankOf: (standing) => subscriberRank(sort, standing),
      matches: (of) => (state === undefined || subscriberState(of) === state) && isNamed(of.token),
    });
    return { ...page, entries: await withLately(page.entries.map(({ token }) => token)) };
  };

  async function withLately(order: readonly string[]): Promise<SubscriberReport[]> {
    const [known, found] = await Promise.all([standings.get(), subscribers.read(order)]);
    const reports = new Map(found.map((each) => [each.subscriber, each]));
    // The map has only the subscribers of this page, because making a map of 10,000 subscribers would take 3 ms.
    const own = new Map(
      known?.subscribers.filter(({ token }) => reports.has(token)).map((each) => [each.token, each]),
    );
    return order.flatMap((token) => {
      const [report, standing] = [reports.get(token), own.get(token)];
      if (!report) return [];
      return { ...report, lately: known && standing ? latelyOf(standing, report, known) : null };
    });
  }
}

/**
 * Returns a function that tells whether a token matches the search `text`. Root searches in tokens. A viewer searches
 * only in the names of clients, because a token may be a credential. A client finds only itself, whatever the text.
 */
async function nameFilter(clients: Pick<Clients, 'names'>, caller: Caller, text = '') {
  if (caller.role === 'client') return (token: string) => token === caller.token;
  if (text === '') return () => true;
  if (caller.role === 'root') return (token: string) => token.includes(text);
  const names = new Map(await clients.names());
  return (token: string) => names.get(token)?.includes(text) ?? false;
}
