import { z } from 'zod';
import { actingClient } from '../authentication/acting_client.ts';
import type { Clients } from '../authentication/client.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { allows, mayNotPublish } from '../authentication/scope.ts';
import { BusError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { LatestStandings } from '../metrics/standings.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import { listed } from '../routing/listing.ts';
import { PAGE_FIELDS, type Pages } from '../routing/paging.ts';
import { parameters, sought } from '../routing/query.ts';
import {
  ALL,
  BOTH,
  type Call,
  type Input,
  NO_CONTENT,
  NOTHING,
  ok,
  ROOT,
  type Route,
  route,
} from '../routing/route.ts';
import { oneOf } from '../routing/schemas.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../routing/topic_name.ts';
import { sharingNext } from '../sharing.ts';
import { ownSubscribers } from './asked_subscribers.ts';
import { sortedTopics, TOPIC_SORTS } from './sorted_topics.ts';
import { type GiveLimits, TOPIC, type Topic, type Topics } from './topic.ts';
import { delayedRefusal, topicRefusal } from './topic_refusals.ts';

export interface TopicParams {
  name: string;
}

export const TOPIC_NAMED = { name: z.string().regex(TOPIC_NAME).describe('The name of the topic.') };
export const TOPIC_PARAMS: Input<TopicParams> = {
  schema: z.object(TOPIC_NAMED),
  wording: { code: 'bad_topic', whole: `a topic name has ${TOPIC_NAME_RULE}` },
};

const WHOLE_TOPIC = TOPIC.extend({
  subscriber_count: z.int().describe('How many subscribers and joins get its events.'),
  subscribers: z
    .array(z.string())
    .describe('Some 100 of them. A client sees itself and its joins; `join:` and a name stand for a join.'),
});
export type WholeTopic = z.infer<typeof WHOLE_TOPIC>;

const PUBLISHER: Input<{ client: string }> = {
  schema: z.strictObject({
    client: z.string('must be the token of a client').describe('The token of the client.'),
  }),
  wording: {
    code: 'bad_client',
    whole: 'send an object such as {"client": "shop--psbsfvxhjewnxiczhqc0"}',
    field: (name, rule) => `${name} ${rule}`,
    unknown: (name) => `${name} is not a field here; use client`,
  },
};

const TOPICS_QUERY = parameters({
  ...PAGE_FIELDS,
  sort: oneOf(TOPIC_SORTS)
    .optional()
    .describe('The order, with the busiest first by `rate`; always in pages, as of a sample.'),
  name: sought('Those whose name contains this.'),
});

interface TopicsParts {
  topics: Topics;
  standings: Pick<LatestStandings, 'get'>;
  limits: GiveLimits;
  /** Finds a client's joins. A client that asks for the subscribers of a topic sees only itself and its joins. */
  joins: { tokens(client: string): Promise<string[]> };
  pages: Pages;
  publicNames: PublicNames;
  clients: Pick<Clients, 'find'>;
  log: Log;
}

/** `/topics`: lists topics, deletes one, and gives one to another client. Publishing is in publish_api.ts. */
export function topicsApi(parts: TopicsParts): Route[] {
  const { topics, limits, pages, publicNames, clients, log } = parts;
  const notFound = (name: string) => new BusError('topic_not_found', `there is no topic ${name}`);

  const listing = sharingNext(() => topics.list());
  const sorted = sortedTopics(parts);

  /** Only root and the publisher itself see the token of the publisher, which can be a credential. */
  const topicsFor = (caller: Caller, list: readonly Topic[]) =>
    publicNames.shownTo(caller, list, 'publisher');

  const removing = {
    action: 'topic.delete',
    params: TOPIC_PARAMS,
    answers: NOTHING,
    errors: ['bad_topic', 'topic_not_found'],
    async handle({ caller, params: { name }, endedSubscriptions }: Call<'client' | 'root', TopicParams>) {
      // A client whose scopes were narrowed still owns its topics, but may not delete those that it may not publish to.
      if (caller.role === 'client' && !allows(caller.scopes?.publish, name))
        throw new BusError('forbidden', `this client may not publish to ${name}, so only root may delete it`);
      const { outcome, delayed, subscriptions } = await topics.remove(name, clientOf(caller));
      if (outcome === 'topic_not_found') throw notFound(name);
      if (outcome === 'forbidden')
        throw new BusError(outcome, `only the publisher of ${name}, or root, may delete it`);
      endedSubscriptions?.(subscriptions);
      if (delayed > 0) log.info({ topic: name, delayed }, 'deleted a topic with its delayed events');
      return NO_CONTENT;
    },
  } as const;
  return [
    route('GET /topics', ALL, {
      query: TOPICS_QUERY,
      answers: { 200: z.array(TOPIC) },
      async handle(call) {
        const { sort, name: text } = call.query;
        if (sort !== undefined) {
          const page = await sorted({ path: call.path, query: { ...call.query, sort } });
          return listed(page.entries, (slice) => topicsFor(call.caller, slice), page);
        }
        const all = () => topics.names();
        const matches = text ? (name: string) => name.includes(text) : undefined;
        const page = await pages.cut(call, all, (name) => name, { isSorted: true, matches });
        const list = await (page ? topics.read(page.entries) : listing());
        return listed(list, (slice) => topicsFor(call.caller, slice), page);
      },
    }),
    route('GET /topics/:name', ALL, {
      params: TOPIC_PARAMS,
      answers: { 200: WHOLE_TOPIC },
      errors: ['bad_topic', 'topic_not_found'],
      async handle({ caller, params: { name } }) {
        const own = await ownSubscribers(parts, caller);
        const [[topic], { count, tokens }] = await Promise.all([
          topics.read([name]),
          topics.subscribers(name, own),
        ]);
        if (!topic) throw notFound(name);
        const [[shown = topic], nameOf] = await Promise.all([
          topicsFor(caller, [topic]),
          publicNames.seenBy(caller, tokens),
        ]);
        return ok({ ...shown, subscriber_count: count, subscribers: tokens.map(nameOf) });
      },
    }),
    route('PUT /topics/:name/publisher', ROOT, {
      action: 'topic.give',
      params: TOPIC_PARAMS,
      body: PUBLISHER,
      answers: NOTHING,
      errors: ['bad_topic', 'bad_client', 'topic_not_found', 'client_not_found', 'limit_reached'],
      async handle({ caller, params: { name }, body, about }) {
        about?.(name, body.client);
        const { token, scopes } = await actingClient(clients, caller, body.client);
        if (!allows(scopes?.publish, name)) throw mayNotPublish(name, 'client');
        const outcome = await topics.give(name, token, limits);
        if (outcome === 'ok') return NO_CONTENT;
        if (outcome === 'topic_not_found') throw notFound(name);
        throw topicRefusal(outcome, name) ?? delayedRefusal(outcome, limits);
      },
    }),
    route('DELETE /topics/:name', BOTH, removing),
    route('DELETE /topic/:name', BOTH, removing),
  ];
}
