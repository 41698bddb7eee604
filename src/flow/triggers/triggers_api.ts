import { z } from 'zod';
import { actingClient } from '../../authentication/acting_client.ts';
import type { Clients } from '../../authentication/client.ts';
import type { PublicNames } from '../../authentication/public_names.ts';
import { allows, mayNotPublish } from '../../authentication/scope.ts';
import { BusError } from '../../errors.ts';
import { eventId } from '../../ids.ts';
import { MAX_CHARACTERS_PER_BYTE } from '../../json.ts';
import type { EventLimits } from '../../publishing/event_fields.ts';
import type { Publisher } from '../../publishing/publisher.ts';
import type { RateLimit } from '../../publishing/rate_limit.ts';
import type { StorageGuard } from '../../publishing/storage_guard.ts';
import type { Caller, ChangingCaller, ClientCaller } from '../../routing/caller.ts';
import type { Dialect } from '../../routing/dialect.ts';
import { listed } from '../../routing/listing.ts';
import { DEFAULT_LISTED, PAGE_FIELDS, type Pages } from '../../routing/paging.ts';
import { badParameter, clientNamed, parameters, whose } from '../../routing/query.ts';
import {
  ALL,
  BOTH,
  MAX_BODY_BYTES,
  NO_CONTENT,
  NOTHING,
  ok,
  type Route,
  route,
} from '../../routing/route.ts';
import { countUpTo } from '../../routing/schemas.ts';
import { topicRefusal } from '../../subscribing/topic_refusals.ts';
import { Computing, nextTimes } from './computing.ts';
import { eventNow, readDefinition } from './definition.ts';
import { placeOf, type StoredTrigger, type TriggerName } from './stored_trigger.ts';
import { readTriggerEvent, TRIGGER_BODY, TRIGGER_PARAMS } from './trigger_input.ts';
import { putRefusal } from './trigger_refusals.ts';
import { reportOf, TRIGGER_REPORT, type TriggerReport } from './trigger_report.ts';
import type { Triggers } from './triggers.ts';
import { wanted } from './wanted.ts';

const MAX_PREVIEW = 100;

const CLIENT = { client: whose('triggers') };
const WHOSE = parameters(CLIENT);
const ONE = parameters({
  ...CLIENT,
  preview: countUpTo(MAX_PREVIEW).optional().describe('How many of the next times to show.'),
});
const PAGE = parameters({ ...CLIENT, ...PAGE_FIELDS });

type Whose = z.infer<typeof WHOSE.schema>;

/** Maximum triggers that a listing reads at a time, because the parsed data of each may take a megabyte. */
const TRIGGERS_PER_TURN = 4;

interface TriggersParts {
  triggers: Triggers;
  pages: Pages;
  publicNames: PublicNames;
  clients: Pick<Clients, 'find' | 'isFixed'>;
  publisher: Pick<Publisher, 'publish'>;
  guard: Pick<StorageGuard, 'checkTopic'>;
  rateLimit?: RateLimit | undefined;
  limits: Pick<EventLimits, 'maxEventDataBytes'>;
  dialect: Pick<Dialect, 'events'>;
  /**
   * Lets the process serve other requests during long work: await `whenFree` before each part that may take some ms.
   */
  budget: { whenFree(owner: string): Promise<void> };
}

/**
 * The routes of `/triggers`. Clients can read and change their own triggers. Root can read and change all triggers.
 * Viewers can read all triggers.
 */
export function triggersApi(parts: TriggersParts): Route[] {
  const { triggers, pages, publicNames, clients, publisher, guard, rateLimit, budget } = parts;
  const rules = { maxEventDataBytes: parts.limits.maxEventDataBytes, ...parts.dialect.events };

  /**
   * Resolves with the client whose triggers a call is about. `token` is undefined if the call is about all clients, and
   * empty if no client has the public name that a viewer gave. The search for a public name costs `priceInCalls` calls
   * in the rate limit.
   */
  const asked = async (caller: Caller, { client }: Whose) => {
    const named = clientNamed(caller, client, 'client', 'your own triggers are');
    if (named === undefined) return { token: named, priceInCalls: 0 };
    const owners = async () => (await triggers.names()).map((each) => each.client);
    const { token = '', priceInCalls } = await publicNames.tokenGiven(caller, named, owners);
    return { token, priceInCalls };
  };

  const askedOne = async (caller: Caller, query: Whose) => {
    const { token, priceInCalls } = await asked(caller, query);
    if (token === undefined) throw badParameter('client', 'is missing: say whose, as ?client=token');
    return { token, priceInCalls };
  };

  const find = async (trigger: TriggerName, priceInCalls = 0) => {
    const found = await triggers.find(trigger);
    if (!found) throw notFound(trigger.name, priceInCalls);
    return found;
  };

  const actor = async (caller: ChangingCaller, query: Whose) => {
    const { token } = await askedOne(caller, query);
    return actingClient(clients, caller, token);
  };

  /**
   * Resolves with a function that makes the reports of these triggers for the caller. A client gets no field `client`,
   * because it sees only its own triggers.
   */
  const reporter = async (caller: Caller, list: readonly StoredTrigger[]) => {
    const tokens = list.map(({ client }) => client);
    const nameOf = await publicNames.seenBy(caller, tokens);
    return (each: StoredTrigger) =>
      reportOf(each, caller.role === 'client' ? undefined : nameOf(each.client));
  };

  return [
    route('GET /triggers', ALL, {
      query: PAGE,
      answers: { 200: z.array(TRIGGER_REPORT) },
      async handle({ caller, path, query }) {
        const { token, priceInCalls } = await asked(caller, query);
        const paged = { path, query: { ...query, limit: query.limit ?? DEFAULT_LISTED } };
        const cut = await pages.cut(paged, () => triggers.names(token), placeOf);
        const show = async (slice: readonly TriggerName[]) => {
          const stored = await triggers.read(slice);
          await budget.whenFree(caller.role === 'client' ? caller.token : caller.role);
          return readable(stored, await reporter(caller, stored));
        };
        return listed(
          cut?.entries ?? [],
          show,
          cut && { ...cut, priceInCalls: cut.priceInCalls + priceInCalls },
          TRIGGERS_PER_TURN,
        );
      },
    }),
    route('GET /triggers/:name', ALL, {
      params: TRIGGER_PARAMS,
      query: ONE,
      answers: {
        200: TRIGGER_REPORT.extend({ preview: z.array(z.int()).optional().describe('The next times.') }),
      },
      errors: ['bad_trigger', 'trigger_not_found'],
      async handle({ caller, params: { name }, query }) {
        const { token, priceInCalls } = await askedOne(caller, query);
        const { nowMs, stored } = await find({ client: token, name }, priceInCalls);
        const report = (await reporter(caller, [stored]))(stored);
        if (query.preview === undefined) return { ...ok(report), priceInCalls };
        const preview = await nextTimes(stored, nowMs, query.preview, () => budget.whenFree(token));
        return {
          ...ok({ ...report, preview: preview.times }),
          priceInCalls: priceInCalls + preview.priceInCalls,
        };
      },
    }),
    route('PUT /triggers/:name', BOTH, {
      action: 'trigger.put',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      body: TRIGGER_BODY,
      maxBodyBytes: MAX_CHARACTERS_PER_BYTE * rules.maxEventDataBytes + MAX_BODY_BYTES,
      answers: { 200: TRIGGER_REPORT, 201: TRIGGER_REPORT },
      errors: [
        'client_not_found',
        'bad_trigger',
        'topic_claimed',
        'limit_reached',
        'trigger_not_found',
        'storage_full',
      ],
      async handle({ caller, params: { name }, query, body }) {
        const client = await actor(caller, query);
        refuseBeyondScope(client, body.topic);
        await guard.checkTopic(body.topic);
        const event = readTriggerEvent(body.event, rules);
        await budget.whenFree(client.token);
        const trigger = { client: client.token, name };
        const computing = new Computing();
        const isFixed = clients.isFixed(client.token);
        const outcome = await triggers.put(trigger, { isFixed, topic: body.topic }, (stored, nowMs) =>
          wanted(body, event, stored, nowMs, computing),
        );
        const refusal = putRefusal(outcome, body.topic);
        if (refusal) throw refusal;
        const { stored } = await find(trigger);
        const status = outcome === 'created' ? 201 : 200;
        const report = (await reporter(caller, [stored]))(stored);
        return { status, body: report, priceInCalls: computing.priceInCalls } as const;
      },
    }),
    route('DELETE /triggers/:name', BOTH, {
      action: 'trigger.delete',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      answers: NOTHING,
      errors: ['bad_trigger', 'trigger_not_found'],
      async handle({ caller, params: { name }, query }) {
        const { token } = await askedOne(caller, query);
        if (!(await triggers.remove({ client: token, name }))) throw notFound(name);
        return NO_CONTENT;
      },
    }),
    route('POST /triggers/:name/fire', BOTH, {
      action: 'trigger.fire',
      params: TRIGGER_PARAMS,
      query: WHOSE,
      answers: { 200: z.object({ id: z.string() }) },
      errors: [
        'client_not_found',
        'bad_trigger',
        'trigger_not_found',
        'topic_claimed',
        'limit_reached',
        'rate_limited',
        'storage_full',
      ],
      async handle({ caller, params: { name }, query }) {
        const acting = await actor(caller, query);
        const client = acting.token;
        const { nowMs, stored } = await find({ client, name });
        const { topic } = readDefinition(stored.text);
        refuseBeyondScope(acting, topic);
        await guard.checkTopic(topic);
        const id = eventId();
        const text = eventNow(stored.text, id, nowMs);
        const rates = await rateLimit?.admit(client, Buffer.byteLength(text));
        const refusal = topicRefusal(await publisher.publish({ topic, client, events: [text] }), topic);
        if (refusal) throw refusal;
        return rates ? { ...ok({ id }), headers: { ...rates } } : ok({ id });
      },
    }),
  ];
}

function refuseBeyondScope({ scopes }: ClientCaller, topic: string): void {
  if (!allows(scopes?.publish, topic)) throw mayNotPublish(topic, 'topic');
}

function notFound(name: string, priceInCalls = 0): BusError {
  return new BusError('trigger_not_found', `there is no trigger ${name}`, { priceInCalls });
}

/** Leaves out triggers whose definition cannot be read. The sweep logs them. */
function readable(list: readonly StoredTrigger[], report: (trigger: StoredTrigger) => TriggerReport) {
  return list.flatMap((trigger) => {
    try {
      return report(trigger);
    } catch {
      return [];
    }
  });
}
