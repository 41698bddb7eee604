import { z } from 'zod';
import type { Clients } from '../authentication/client.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { BusError, NO_SUBSCRIBER, subscriberNotFound } from '../errors.ts';
import type { LatestStandings } from '../metrics/standings.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { listed } from '../routing/listing.ts';
import { PAGE_FIELDS, type PagedCall, type Pages } from '../routing/paging.ts';
import { parameters, sought } from '../routing/query.ts';
import {
  ALL,
  CLIENTS,
  type Input,
  NO_CONTENT,
  NOTHING,
  ok,
  ROOT,
  type Route,
  route,
} from '../routing/route.ts';
import { NAMED, oneOf } from '../routing/schemas.ts';
import { sharingNext } from '../sharing.ts';
import { SUBSCRIBER_SORTS, SUBSCRIBER_STATES } from './ranking.ts';
import { sortedListing } from './sorted_listing.ts';
import type { Subscribers } from './subscriber.ts';
import { SUBSCRIBER_REPORT, type SubscriberReport } from './subscriber_report.ts';

const OTHERS_REPORT = SUBSCRIBER_REPORT.pick({
  subscriber: true,
  uuid: true,
  callback: true,
  max_events: true,
  timeout: true,
  topics: true,
  events: true,
});
type OthersReport = z.infer<typeof OTHERS_REPORT>;

const SUBSCRIBERS = z.array(
  z.union([SUBSCRIBER_REPORT, OTHERS_REPORT.register(NAMED, { name: 'OtherSubscriber' })]),
);

export const SUBSCRIBER_PARAMS: Input<{ token: string }> = {
  schema: z.object({ token: z.string().describe('The token of the subscriber.') }),
  wording: { code: 'subscriber_not_found', whole: NO_SUBSCRIBER },
};

const QUERY = parameters({
  ...PAGE_FIELDS,
  sort: oneOf(SUBSCRIBER_SORTS)
    .optional()
    .describe('The order, with what needs somebody most first; always in pages, as of a sample.'),
  state: oneOf(SUBSCRIBER_STATES)
    .optional()
    .describe('Those that were in this state when the bus was sampled.'),
  name: sought('Those whose token contains this; for viewers, those whose name contains it.'),
});
type ListCall = Omit<PagedCall, 'query'> & { query: z.infer<typeof QUERY.schema> };

interface SubscribersParts {
  subscribers: Subscribers;
  standings: Pick<LatestStandings, 'get'>;
  clients: Pick<Clients, 'names'>;
  pages: Pages;
  publicNames: PublicNames;
  dialect: Pick<Dialect, 'listsOthers'>;
}

/** `/subscribers`: lists subscribers, shows one, and removes one with all its subscriptions. */
export function subscribersApi(parts: SubscribersParts): Route[] {
  const { subscribers, pages, publicNames, dialect } = parts;
  const removeAll = async (token: string) => {
    if (!(await subscribers.remove(token))) throw subscriberNotFound();
    return NO_CONTENT;
  };

  /**
   * Returns reports as the caller may see them. A client sees its own report in full, and short reports of other
   * subscribers. Only the subscriber itself sees its `uuid`, the secret by which it recognizes the bus.
   */
  const subscribersFor = async (caller: Caller, slice: readonly SubscriberReport[]) => {
    const nameOf = await publicNames.seenBy(
      caller,
      slice.map(({ subscriber }) => subscriber),
    );
    return slice.map((report) => {
      const subscriber = nameOf(report.subscriber);
      if (caller.role !== 'client') return { ...report, subscriber, uuid: null };
      return report.subscriber === caller.token ? report : seenByOthers(report, subscriber);
    });
  };

  const everybody = sharingNext(() => subscribers.list());
  const tokens = sharingNext(() => subscribers.tokens());

  const sorted = sortedListing(parts, tokens);

  const listing = {
    query: QUERY,
    answers: { 200: SUBSCRIBERS },
    async handle(call: ListCall) {
      const { sort, state, name } = call.query;
      if (sort !== undefined || state !== undefined || name !== undefined) {
        const page = await sorted(call);
        return listed(page.entries, (slice) => subscribersFor(call.caller, slice), page);
      }
      const own = clientOf(call.caller);
      const seesAll = own === undefined || dialect.listsOthers;
      const page = await pages.cut(
        call,
        async () => (seesAll ? tokens() : [own]),
        (token) => token,
      );
      const read = page?.entries ?? (seesAll ? undefined : [own]);
      const list = await (read ? subscribers.read(read) : everybody());
      return listed(list, (slice) => subscribersFor(call.caller, slice), page);
    },
  } as const;
  return [
    route('GET /subscriptions', ALL, listing),
    route('GET /subscribers', ALL, listing),
    route('GET /subscribers/:token', ALL, {
      params: SUBSCRIBER_PARAMS,
      answers: { 200: SUBSCRIBER_REPORT },
      errors: ['subscriber_not_found'],
      async handle({ caller, params }) {
        if (caller.role === 'client' && caller.token !== params.token)
          throw new BusError('forbidden', 'only root and viewers see other subscribers than yourself');
        const { token = '', priceInCalls } = await publicNames.tokenGiven(caller, params.token, () =>
          tokens(),
        );
        const [report] = await subscribers.read([token]);
        if (!report) throw subscriberNotFound();
        const [shown] = await subscribersFor(caller, [report]);
        return { ...ok(shown as SubscriberReport), priceInCalls };
      },
    }),
    route('DELETE /subscriber', CLIENTS, {
      action: 'subscriber.delete',
      answers: NOTHING,
      errors: ['subscriber_not_found'],
      handle: ({ caller }) => removeAll(caller.token),
    }),
    route('DELETE /subscribers/:token', ROOT, {
      action: 'subscriber.delete',
      params: SUBSCRIBER_PARAMS,
      answers: NOTHING,
      errors: ['subscriber_not_found'],
      handle: ({ params }) => removeAll(params.token),
    }),
  ];
}

/**
 * Returns what other clients see of a report: the fields that the Ruby Routemaster showed. `subscriber` is a public
 * name, because the token may be a credential. The `uuid` is hidden, because it is a credential.
 */
function seenByOthers(report: SubscriberReport, subscriber: string): OthersReport {
  const { callback, max_events, timeout, topics, events } = report;
  return { subscriber, uuid: null, callback, max_events, timeout, topics, events };
}
