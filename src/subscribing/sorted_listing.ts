import type { Clients } from '../authentication/client.ts';
import type { LatestStandings, ReadStandings, Standing } from '../metrics/standings.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import type { Page, Pages } from '../routing/paging.ts';
import {
  isSampled,
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
 * Returns a function that lists subscribers in pages, sorted by token or by figures such as the length of the queue.
 * The job `sample` stores the figures every ten seconds. The reports of only one page are read, so a page costs little
 * more with 10,000 subscribers than with a few.
 */
export function sortedListing(parts: ListingParts, tokens: () => Promise<string[]>) {
  const { subscribers, standings, pages } = parts;

  /**
   * Returns the figures of all subscribers. The last run of the job `sample` has stored them (`known`). If they are
   * outdated, or Redis now has another number of subscribers, the tokens of all subscribers are read from Redis. A
   * subscriber without figures is then listed with an empty queue. (If one subscriber has come and another has left,
   * the number is the same. The new subscriber is then missing for some seconds.)
   *
   * For a client, returns its own figures alone, so that its page does not need partitions that are away.
   */
  const everybody = async (
    known: ReadStandings | undefined,
    caller: Caller,
  ): Promise<readonly Standing[]> => {
    const own = clientOf(caller);
    const isFresh = own === undefined && known && !known.isOutdated;
    if (isFresh && known.members === (await subscribers.members())) return known.subscribers;
    const all = new Map(known?.subscribers.map((each) => [each.token, each]));
    return (own === undefined ? await tokens() : [own]).map(
      (token) => all.get(token) ?? unknownStanding(token),
    );
  };

  return async ({ caller, path, query }: SortedCall): Promise<Page<SubscriberReport>> => {
    const { sort = 'name', state, name } = query;
    const known = await standings.get();
    const all = await everybody(known, caller);
    const isNamed = await nameFilter(parts.clients, caller, name);
    const page = await pages.cutRanked({ path, query }, sort, all, {
      rankOf: (standing) => subscriberRank(sort, standing),
      matches: (of) => (state === undefined || subscriberState(of) === state) && isNamed(of.token),
    });
    const found = await subscribers.read(page.entries.map(({ token }) => token));
    const reports = new Map(found.map((each) => [each.subscriber, each]));
    const entries = page.entries.flatMap((standing): SubscriberReport[] => {
      const report = reports.get(standing.token);
      if (!report) return [];
      return [{ ...report, lately: known && isSampled(standing) ? latelyOf(standing, report, known) : null }];
    });
    return { ...page, entries };
  };
}

/**
 * Returns a function that tells whether a token matches the search `text`. Root searches in tokens. A viewer searches
 * only in the names of clients, because a token may be a credential. A client finds itself, whatever the text.
 */
async function nameFilter(clients: Pick<Clients, 'names'>, caller: Caller, text = '') {
  if (text === '' || caller.role === 'client') return () => true;
  if (caller.role === 'root') return (token: string) => token.includes(text);
  const names = new Map(await clients.names());
  return (token: string) => names.get(token)?.includes(text) ?? false;
}
