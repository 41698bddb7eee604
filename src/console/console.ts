import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import { acceptsHtml } from '../html.ts';
import { ANYONE, MAX_BODY_BYTES, type Route, route } from '../routing/route.ts';
import { msOf } from '../store/replies.ts';
import { maxSubscriptionBytes } from '../subscribing/subscriptions_api.ts';
import { ApiCalls } from './api_calls.ts';
import { assetRoute } from './assets.ts';
import { auditPage } from './audit_page.ts';
import type { BulkParts } from './bulk_pages.ts';
import { type ClientsParts, clientsPages } from './clients_pages.ts';
import { deadLettersPages } from './dead_letters_pages.ts';
import { deliveriesPage } from './deliveries_pages.ts';
import { deliveryPage } from './delivery_page.ts';
import { jobsPages } from './jobs_pages.ts';
import { joinsPages } from './joins_pages.ts';
import { type LoginParts, loginPages } from './login_pages.ts';
import { type OverviewParts, overviewPage } from './overview_page.ts';
import { pageNear, withSecondTry } from './refused_forms.ts';
import { subscriberPage } from './subscriber_page.ts';
import { subscribersPage } from './subscribers_pages.ts';
import { tailPage } from './tail_page.ts';
import { topicPage } from './topic_page.ts';
import { topicsPage } from './topics_pages.ts';
import { triggersPages } from './triggers_pages.ts';

type ConsoleParts = LoginParts &
  OverviewParts &
  BulkParts &
  ClientsParts & { limits: Pick<Config, 'maxEventDataBytes' | 'maxSubscriptionTopics'> };

const WHERE_THINGS_ARE =
  'this is Routemaster, an event bus; its API is described at /docs, and for programs at /openapi.json; ' +
  'its console is at /console; with credentials, /pulse says whether it works';

/** Redirects a browser from `/` to the console. Other callers get 404, as from the Ruby Routemaster. */
const FRONT_DOOR = route('GET /', ANYONE, {
  isPublic: true,
  answers: { 303: null },
  async handle({ headers }) {
    if (!acceptsHtml(headers.accept)) throw new BusError('not_found', WHERE_THINGS_ARE);
    return { status: 303, headers: { Location: '/console' } };
  },
});

export function consolePages(routes: readonly Route[], parts: ConsoleParts): Route[] {
  const api = new ApiCalls(routes, async () =>
    msOf(await parts.partitions.control.command((redis) => redis.time())),
  );
  // The maximum bytes of a form with the data of an event. Browsers encode a byte as up to three characters, such as
  // `%C3`. The other fields, and what the page has indented in the data, take less than MAX_BODY_BYTES.
  const maxBytes = 3 * parts.limits.maxEventDataBytes + MAX_BODY_BYTES;
  const pages: Route[] = [
    ...loginPages({ ...parts, pageNear: (path) => pageNear(pages, path) }),
    overviewPage({ ...parts, api }),
    subscribersPage(api),
    ...subscriberPage(api, maxSubscriptionBytes(parts.limits)),
    deliveriesPage(api),
    ...deliveryPage(api),
    ...deadLettersPages({ ...parts, api }),
    topicsPage(api),
    ...topicPage(api, maxBytes),
    tailPage(api),
    ...triggersPages(api, maxBytes),
    ...joinsPages(api),
    ...jobsPages(api),
    ...clientsPages({ ...parts, api }),
    auditPage(api),
  ];
  return [FRONT_DOOR, assetRoute(), ...pages.map((each) => withSecondTry(each, pages))];
}
