import { z } from 'zod';
import { actingClient } from '../../authentication/acting_client.ts';
import type { Clients } from '../../authentication/client.ts';
import type { PublicNames } from '../../authentication/public_names.ts';
import { BusError } from '../../errors.ts';
import { joinToken, ownerOf } from '../../ids.ts';
import { type Caller, clientOf } from '../../routing/caller.ts';
import { listed } from '../../routing/listing.ts';
import { DEFAULT_LISTED, nextLink, PAGE_FIELDS, PAGE_QUERY, type Pages } from '../../routing/paging.ts';
import { badParameter, clientNamed, parameters, whose } from '../../routing/query.ts';
import { ALL, BOTH, type Input, NO_CONTENT, NOTHING, ok, type Route, route } from '../../routing/route.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../../routing/topic_name.ts';
import type { Subscribers } from '../../subscribing/subscriber.ts';
import { beyondScope, forbidden, refused } from './join_refusals.ts';
import { JOIN_REPORT, type KeyPlace, OPEN_KEY } from './join_report.ts';
import { type JoinRules, RULES_INPUT } from './join_rules.ts';
import { type Joins, placeOf } from './joins.ts';

const PARAMS: Input<{ name: string }> = {
  schema: z.object({ name: z.string().regex(TOPIC_NAME).describe('The name of the join.') }),
  wording: { code: 'bad_join', whole: `the name of a join has ${TOPIC_NAME_RULE}` },
};
const CLIENT = { client: whose('join') };
const WHOSE = parameters(CLIENT);
const KEYS = parameters({ ...CLIENT, ...PAGE_FIELDS });
const JOIN = JOIN_REPORT.extend({ keys: z.array(OPEN_KEY) });

interface JoinsParts {
  joins: Joins;
  clients: Pick<Clients, 'find'>;
  pages: Pages;
  publicNames: PublicNames;
  subscribers: Pick<Subscribers, 'remove'>;
}

/**
 * The routes of `/joins`. Clients can read, change and remove their own joins. Root can read, change and remove all
 * joins. Viewers can read all joins.
 */
export function joinsApi({ joins, clients, pages, publicNames, subscribers }: JoinsParts): Route[] {
  /**
   * Resolves with the token of the join that the request names. `priceInCalls` says how many calls of the rate limit it
   * costs to find the join. Only viewers pay, because they give the public name of the join's client, and the bus must
   * search for it.
   */
  const meant = async (caller: Caller, name: string, client: string | undefined) => {
    const named = clientNamed(caller, client, 'client', 'your own join is');
    if (named === undefined)
      throw badParameter('client', 'is missing: say whose join it is, as ?client=token');
    const owners = async () => (await joins.tokens()).map(ownerOf);
    const { token = '', priceInCalls } = await publicNames.tokenGiven(caller, named, owners);
    return { token: joinToken(name, token), priceInCalls };
  };
  /**
   * Removes the join that was just stored, if its client was removed during this request, or lost a scope that the join
   * needs. The call that changed the client removes its joins, but may have done so before this join was stored.
   */
  const undoUnlessPermitted = async (token: string, rules: JoinRules) => {
    const client = await clients.find(ownerOf(token));
    const refusal = client ? beyondScope(client.scopes, rules) : forbidden('this client was removed');
    if (!refusal) return;
    await subscribers.remove(token);
    throw refusal;
  };

  return [
    route('GET /joins', ALL, {
      query: PAGE_QUERY,
      answers: { 200: z.array(JOIN_REPORT) },
      async handle(call) {
        const own = clientOf(call.caller);
        const tokens = () => joins.tokens(own);
        const page = await pages.cut(call, tokens, placeOf);
        const reports = await joins.read(page?.entries ?? (await tokens()));
        return listed(reports, (slice) => publicNames.shownTo(call.caller, slice, 'client'), page);
      },
    }),
    route('PUT /joins/:name', BOTH, {
      action: 'join.put',
      params: PARAMS,
      query: WHOSE,
      body: RULES_INPUT,
      answers: { 200: JOIN_REPORT, 201: JOIN_REPORT },
      errors: ['bad_join', 'client_not_found', 'topic_claimed', 'limit_reached', 'storage_full'],
      async handle({ caller, params: { name }, query, body }) {
        const named = await meant(caller, name, query.client);
        const client = await actingClient(clients, caller, ownerOf(named.token));
        const token = joinToken(name, client.token);
        const beyond = beyondScope(client.scopes, body);
        if (beyond) throw beyond;
        const { outcome, topic = '', join = '' } = await joins.put(client.token, name, body);
        if (outcome !== 'created' && outcome !== 'changed') throw refused(outcome, body, topic, join);
        await undoUnlessPermitted(token, body);
        const report = await joins.find(token);
        if (!report) throw notFound(name);
        return outcome === 'created' ? ({ status: 201, body: report } as const) : ok(report);
      },
    }),
    route('GET /joins/:name', ALL, {
      params: PARAMS,
      query: KEYS,
      answers: { 200: JOIN },
      errors: ['bad_join', 'join_not_found'],
      async handle(call) {
        const { caller, path, params, query } = call;
        const { client, limit = DEFAULT_LISTED } = query;
        const { token, priceInCalls } = await meant(caller, params.name, client);
        const place = query.after && readPlace(await pages.open(path, 'after', query.after));
        const report = await joins.find(token);
        if (!report) throw notFound(params.name, priceInCalls);
        const { keys, next } = await joins.openKeys(token, report, limit, place || undefined);
        const after = next && (await pages.seal(path, `${next.sinceMs} ${next.key}`));
        const headers = after === undefined ? after : nextLink(path, { client, limit: query.limit, after });
        const [shown = report] = await publicNames.shownTo(caller, [report], 'client');
        return { ...ok({ ...shown, keys }), headers, priceInCalls };
      },
    }),
    route('DELETE /joins/:name', BOTH, {
      action: 'join.delete',
      params: PARAMS,
      query: WHOSE,
      answers: NOTHING,
      errors: ['bad_join', 'join_not_found'],
      async handle({ caller, params: { name }, query }) {
        const { token } = await meant(caller, name, query.client);
        if (!(await subscribers.remove(token))) throw notFound(name);
        return NO_CONTENT;
      },
    }),
  ];
}

function notFound(name: string, priceInCalls = 0): BusError {
  return new BusError('join_not_found', `there is no join ${name}`, { priceInCalls });
}

function readPlace(place: string): KeyPlace {
  const space = place.indexOf(' ');
  return { sinceMs: Number(place.slice(0, space)), key: place.slice(space + 1) };
}
