import { actingClient } from '../authentication/acting_client.ts';
import type { Clients } from '../authentication/client.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { allows, mayNotPublish } from '../authentication/scope.ts';
import { BusError } from '../errors.ts';
import { eventId } from '../ids.ts';
import type { EventLimits } from '../publishing/event_fields.ts';
import type { Publisher } from '../publishing/publisher.ts';
import type { RateLimit } from '../publishing/rate_limit.ts';
import type { StorageGuard } from '../publishing/storage_guard.ts';
import { topicRefusal } from '../publishing/topic_refusal.ts';
import type { Caller, ChangingCaller, ClientCaller } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { listed } from '../routing/listing.ts';
import { DEFAULT_LISTED, type Pages } from '../routing/paging.ts';
import { NO_CONTENT, ok } from '../routing/route.ts';
import { Computing } from './computing.ts';
import { eventNow, readDefinition } from './definition.ts';
import { nextTimes } from './preview.ts';
import { placeOf, type StoredTrigger, type TriggerName } from './stored_trigger.ts';
import { readTriggerEvent, type TriggerBody, type TriggerParams } from './trigger_input.ts';
import { type One, type Page, TriggerOwners, type Whose } from './trigger_queries.ts';
import { putRefusal } from './trigger_refusals.ts';
import { reportOf } from './trigger_report.ts';
import type { Triggers } from './triggers.ts';
import { wanted } from './wanted.ts';

/** Maximum triggers that a listing reads at a time, since the parsed data of each may take a megabyte. */
const TRIGGERS_PER_TURN = 4;

export interface TriggersParts {
  triggers: Triggers;
  pages: Pages;
  publicNames: PublicNames;
  clients: Pick<Clients, 'find' | 'isFixed'>;
  publisher: Pick<Publisher, 'publish'>;
  guard: Pick<StorageGuard, 'checkTopic'>;
  rateLimit?: RateLimit | undefined;
  limits: Pick<EventLimits, 'maxEventDataBytes'>;
  dialect: Pick<Dialect, 'events'>;
  /** Spreads long work over time. Await `turn` before work that may take some ms, so that other requests are served. */
  budget: { turn(owner: string): Promise<void> | undefined };
}

type Change = { caller: ChangingCaller; params: TriggerParams; query: Whose };

/** The handlers of `/triggers`. */
export class TriggerCalls {
  readonly #parts: TriggersParts;
  readonly #owners: TriggerOwners;

  constructor(parts: TriggersParts) {
    this.#parts = parts;
    this.#owners = new TriggerOwners(parts.triggers, parts.publicNames);
  }

  async list({ caller, path, query }: { caller: Caller; path: string; query: Page }) {
    const { triggers, pages, budget } = this.#parts;
    const { token, calls } = await this.#owners.asked(caller, query);
    const asked = { path, query: { ...query, limit: query.limit ?? DEFAULT_LISTED } };
    const names = async () => (token === null ? [] : triggers.names(token));
    const cut = await pages.cut(asked, names, placeOf);
    const show = async (slice: readonly TriggerName[]) => {
      const stored = await triggers.read(slice);
      await budget.turn(caller.role === 'client' ? caller.token : caller.role);
      return stored.map(await this.#reporter(caller, stored));
    };
    return listed(cut?.entries ?? [], show, cut && { ...cut, calls: cut.calls + calls }, TRIGGERS_PER_TURN);
  }

  async read({ caller, params: { name }, query }: { caller: Caller; params: TriggerParams; query: One }) {
    const { token, calls } = await this.#owners.one(caller, query);
    if (token === null) throw notFound(name);
    const { nowMs, stored } = await this.#find({ client: token, name });
    const report = (await this.#reporter(caller, [stored]))(stored);
    if (query.preview === undefined) return { ...ok(report), calls };
    const preview = await nextTimes(stored, nowMs, query.preview, () => this.#parts.budget.turn(token));
    return { ...ok({ ...report, preview: preview.times }), calls: calls + preview.calls };
  }

  async put({ caller, params: { name }, query, body }: Change & { body: TriggerBody }) {
    const { triggers, clients, guard, limits, dialect, budget } = this.#parts;
    const client = await this.#actor(caller, query);
    refuseBeyondScope(client, body.topic);
    await guard.checkTopic(body.topic);
    const rules = { maxEventDataBytes: limits.maxEventDataBytes, ...dialect.events };
    const event = readTriggerEvent(body.event, rules);
    await budget.turn(client.token);
    const trigger = { client: client.token, name };
    const computing = new Computing();
    const isFixed = clients.isFixed(client.token);
    const outcome = await triggers.put(trigger, { isFixed, topic: body.topic }, (stored, nowMs) =>
      wanted(body, event, stored, nowMs, computing),
    );
    const refusal = putRefusal(outcome, body.topic);
    if (refusal) throw refusal;
    const { stored } = await this.#find(trigger);
    const status = outcome === 'created' ? 201 : 200;
    const report = (await this.#reporter(caller, [stored]))(stored);
    return { status, body: report, calls: computing.calls } as const;
  }

  async remove({ caller, params: { name }, query }: Change) {
    const { token } = await this.#owners.one(caller, query);
    if (token === null || !(await this.#parts.triggers.remove({ client: token, name }))) throw notFound(name);
    return NO_CONTENT;
  }

  async fire({ caller, params: { name }, query }: Change) {
    const { guard, rateLimit, publisher } = this.#parts;
    const acting = await this.#actor(caller, query);
    const client = acting.token;
    const { nowMs, stored } = await this.#find({ client, name });
    const { topic } = readDefinition(stored.text);
    refuseBeyondScope(acting, topic);
    await guard.checkTopic(topic);
    const id = eventId();
    const text = eventNow(stored.text, id, nowMs);
    const rates = await rateLimit?.admit(client, Buffer.byteLength(text));
    const refusal = topicRefusal(await publisher.publish({ topic, client, events: [text] }), topic);
    if (refusal) throw refusal;
    return rates ? { ...ok({ id }), headers: { ...rates } } : ok({ id });
  }

  async #find(trigger: TriggerName) {
    const { nowMs, stored } = await this.#parts.triggers.find(trigger);
    if (!stored) throw notFound(trigger.name);
    return { nowMs, stored };
  }

  /** Resolves with the client in whose name a trigger is changed. */
  async #actor(caller: Change['caller'], query: Whose) {
    const { token } = await this.#owners.one(caller, query);
    return actingClient(this.#parts.clients, caller, token ?? '');
  }

  /**
   * Resolves with a function that makes the reports of these triggers for the caller. A client sees no field `client`,
   * as all that it sees are its own.
   */
  async #reporter(caller: Caller, list: readonly StoredTrigger[]) {
    const owners = list.map(({ client }) => client);
    const nameOf = await this.#parts.publicNames.seenBy(caller, owners);
    return (each: StoredTrigger) =>
      reportOf(each, caller.role === 'client' ? undefined : nameOf(each.client));
  }
}

function refuseBeyondScope({ scopes }: ClientCaller, topic: string): void {
  if (!allows(scopes?.publish, topic)) throw mayNotPublish(topic, 'topic');
}

function notFound(name: string): BusError {
  return new BusError('trigger_not_found', `there is no trigger ${name}`);
}
