import { z } from 'zod';
import type { Clients } from '../authentication/client.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { allows } from '../authentication/scope.ts';
import type { ClientCaller } from '../caller.ts';
import type { Config } from '../config.ts';
import { isSecret, newKeyPair, newSecret } from '../delivering/signatures.ts';
import type { Dialect } from '../dialect.ts';
import { BusError } from '../errors.ts';
import { listed } from '../listing.ts';
import type { PagedCall, Pages } from '../paging.ts';
import { type Input, NO_CONTENT, ok, type Wording } from '../route.ts';
import { SharedReading } from '../shared_reading.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../topic_name.ts';
import type { CallbackPolicy } from './callback_policy.ts';
import { splitCallback } from './callback_url.ts';
import { SUBSCRIBER_REPORT, type SubscriberReport } from './subscriber_report.ts';
import type { Subscription, Subscriptions } from './subscription.ts';
import type { TopicParams } from './topics_api.ts';

const MAX_TIMEOUT_MS = 3_600_000;
const MAX_MAX_EVENTS = 10_000;
const MIN_MAX_BYTES = 1024;
const MAX_MAX_BYTES = 16 * 1024 * 1024;
const MAX_ATTEMPTS = 1_000_000;
const MIN_AGE_MS = 1000;
const MAX_AGE_MS = 365 * 86_400_000;

/** The user name of Basic authentication, which cannot contain a colon or control characters (RFC 7617). */
const UUID = /^[^:\p{Cc}]{0,255}$/u;
const UUID_RULE = 'at most 255 characters, no colon and no control characters';

/** Value of `signing_secret` that asks for a new key pair. The subscriber gets the public key. */
const ED25519 = 'ed25519';

const topicRule = `a topic name has ${TOPIC_NAME_RULE}`;
const topicName = z.string(topicRule).regex(TOPIC_NAME, topicRule);
const wholeNumber = (min: number, max: number) =>
  z
    .int(`must be a whole number from ${min} to ${max}`)
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);

const requestSchema = (
  { laneLimitMax, maxSubscriptionTopics }: SubscriptionLimits,
  { cutsMax }: Pick<Dialect, 'cutsMax'>,
) =>
  z.strictObject({
    topics: z
      .array(topicName, 'must be an array of topic names')
      .max(maxSubscriptionTopics, `must have at most ${maxSubscriptionTopics} names`),
    callback: z.string('must be a URL'),
    uuid: z.string('must be a string').regex(UUID, `must have ${UUID_RULE}`).nullish(),
    timeout: wholeNumber(0, MAX_TIMEOUT_MS).nullish(),
    max: (cutsMax
      ? wholeNumber(1, Number.MAX_SAFE_INTEGER).transform((max) => Math.min(max, MAX_MAX_EVENTS))
      : wholeNumber(1, MAX_MAX_EVENTS)
    ).nullish(),
    max_bytes: wholeNumber(MIN_MAX_BYTES, MAX_MAX_BYTES).nullish(),
    ordered: z.boolean('must be true or false').nullish(),
    max_in_flight: wholeNumber(1, laneLimitMax).nullish(),
    max_attempts: wholeNumber(1, MAX_ATTEMPTS).nullish(),
    max_age: wholeNumber(MIN_AGE_MS, MAX_AGE_MS).nullish(),
    signing_secret: z
      .custom<boolean | string>(
        (value) =>
          typeof value === 'boolean' || value === ED25519 || (typeof value === 'string' && isSecret(value)),
        `must be true, "${ED25519}", false, or whsec_ and 24 to 64 bytes in Base64`,
      )
      .nullish(),
  });

type Request = z.infer<ReturnType<typeof requestSchema>>;

/** Limits on the settings of a subscriber. */
export type SubscriptionLimits = Pick<Config, 'laneLimitMax' | 'maxSubscriptionTopics'>;

const wording = (fields: string[]): Wording => ({
  code: (field) => {
    if (/^topics\.\d+$/.test(field)) return 'bad_topic';
    return field === 'callback' ? 'bad_callback' : 'bad_subscription';
  },
  whole: 'send an object with topics, callback and uuid',
  field: (name, rule) => `${name}: ${rule}`,
  unknown: (name) => `unknown field ${JSON.stringify(name)}; use ${fields.join(', ')}`,
});

export function subscriptionInput(
  limits: SubscriptionLimits,
  dialect: Pick<Dialect, 'cutsMax'>,
): Input<Request> {
  const schema = requestSchema(limits, dialect);
  return { schema, wording: wording(Object.keys(schema.shape)) };
}

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

export const SUBSCRIBERS = z.array(z.union([SUBSCRIBER_REPORT, OTHERS_REPORT]));

export const SUBSCRIBER_PARAMS: Input<{ token: string }> = {
  schema: z.object({ token: z.string() }),
  wording: { code: 'subscriber_not_found', whole: 'there is no such subscriber' },
};

/** The answer to a request for a signing key that the bus makes. */
export const SIGNING_KEY = z.union([
  z.object({ signing_secret: z.string() }),
  z.object({ public_key: z.string() }),
]);

interface SubscriptionsParts {
  clients: Pick<Clients, 'find'>;
  subscriptions: Subscriptions;
  pages: Pages;
  policy: CallbackPolicy;
  publicNames: PublicNames;
  dialect: Pick<Dialect, 'listsOthers'>;
  /** Called with the number of events dropped when a subscriber left. */
  removed: (token: string, events: number) => void;
}

/** Handlers of `/subscription`, `/subscriptions`, `/subscriber` and `/subscribers`. */
export function subscriptionsApi(parts: SubscriptionsParts) {
  const { clients, subscriptions, pages, policy, publicNames, dialect, removed } = parts;

  const remove = async (token: string) => {
    const events = await subscriptions.remove(token);
    if (events === undefined) throw new BusError('subscriber_not_found', 'there is no such subscriber');
    if (events > 0) removed(token, events);
    return NO_CONTENT;
  };

  /**
   * Undoes what the client may not do since a moment ago: the cache of clients may still have let it pass. A
   * removal deletes the client first and its subscriber later, so either that or this check finds both. A
   * client is limited in one step with its subscriptions.
   */
  const undoUnlessPermitted = async (token: string, topics: string[]) => {
    const client = await clients.find(token);
    if (!client) {
      await subscriptions.remove(token);
      throw new BusError('forbidden', 'this client was removed');
    }
    for (const topic of topics)
      if (!allows(client.scopes?.subscribe, topic)) await subscriptions.unsubscribe(token, topic);
    refuseBeyondScope(client, topics);
  };

  /** Root's reports have no `uuid`; a client sees its own whole. */
  const shownTo = async (own: string | undefined, slice: readonly SubscriberReport[]) => {
    if (own === undefined) return slice.map((report) => ({ ...report, uuid: null }));
    const others = slice.filter(({ subscriber }) => subscriber !== own);
    const nameOf = await publicNames.of(others.map(({ subscriber }) => subscriber));
    return slice.map((report) => (report.subscriber === own ? report : seenByOthers(report, nameOf)));
  };

  const everybody = new SharedReading(() => subscriptions.list());
  const tokens = new SharedReading(() => subscriptions.tokens());

  return {
    async list(call: PagedCall) {
      const own = call.caller.role === 'client' ? call.caller.token : undefined;
      const seesAll = own === undefined || dialect.listsOthers;
      const page = await pages.cut(
        call,
        async () => (seesAll ? tokens.get() : [own]),
        (token) => token,
      );
      const all = () => (seesAll ? everybody.get() : subscriptions.list(own));
      const list = await (page ? subscriptions.read(page.entries) : all());
      return listed(list, (slice) => shownTo(own, slice), page);
    },

    refuseEarly({ caller }: { caller: ClientCaller }) {
      refuseBeyondScope(caller, []);
    },

    /** Resolves the callback's name, for which an attacker's DNS server can take two seconds. */
    async refuseLate({ body }: { body: Request }) {
      const { user, callback } = splitCallback(body.callback);
      if (user !== undefined && !UUID.test(user)) throw badCallback('its user name cannot be a uuid');
      const refusal = await policy.refusal(callback);
      if (refusal !== undefined) throw badCallback(refusal);
    },

    async subscribe({ caller, body }: { caller: ClientCaller; body: Request }) {
      const { user, callback } = splitCallback(body.callback);
      refuseBeyondScope(caller, body.topics);
      const { signingKey, answer } = signing(body.signing_secret ?? undefined);
      const outcome = await subscriptions.subscribe(caller.token, {
        ...wantedBy(body),
        callback,
        uuid: body.uuid || user || '',
        signingKey,
      });
      if (outcome !== 'ok') throw limitReached(outcome);
      await undoUnlessPermitted(caller.token, body.topics);
      return answer ? { ...ok(answer), headers: { 'Cache-Control': 'no-store' } } : NO_CONTENT;
    },

    async unsubscribe({ caller, params: { name } }: { caller: ClientCaller; params: TopicParams }) {
      const outcome = await subscriptions.unsubscribe(caller.token, name);
      if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'you are not a subscriber');
      if (outcome === 'topic_not_found') throw new BusError(outcome, `there is no topic ${name}`);
      if (outcome === 'not_subscribed') throw new BusError(outcome, `you are not subscribed to ${name}`);
      return NO_CONTENT;
    },

    leave: ({ caller }: { caller: ClientCaller }) => remove(caller.token),
    remove: ({ params }: { params: { token: string } }) => remove(params.token),
  };
}

/** A token may be a credential, and the uuid is one. The rest is what the Ruby Routemaster showed. */
function seenByOthers(report: SubscriberReport, nameOf: (token: string) => string): OthersReport {
  const { subscriber, callback, max_events, timeout, topics, events } = report;
  return { subscriber: nameOf(subscriber), uuid: null, callback, max_events, timeout, topics, events };
}

function badCallback(rule: string): BusError {
  return new BusError('bad_callback', `callback: ${rule}`, { members: { field: 'callback' } });
}

function wantedBy(body: Request): Omit<Subscription, 'callback' | 'uuid'> {
  const { topics, timeout, max, max_bytes, ordered, max_in_flight, max_attempts, max_age } = body;
  return {
    topics,
    timeoutMs: timeout ?? undefined,
    maxEvents: max ?? undefined,
    maxBytes: max_bytes ?? undefined,
    ordered: ordered ?? undefined,
    maxInFlight: max_in_flight ?? undefined,
    maxAttempts: max_attempts ?? undefined,
    maxAgeMs: max_age ?? undefined,
  };
}

/** Returns the signing key, new if the request asks for one, and the only answer that shows a new key. */
function signing(asked: boolean | string | undefined) {
  if (asked === false) return { signingKey: null };
  if (asked === true) {
    const secret = newSecret();
    return { signingKey: secret, answer: { signing_secret: secret } };
  }
  if (asked !== ED25519) return { signingKey: asked };
  const { privateKey, publicKey } = newKeyPair();
  return { signingKey: privateKey, answer: { public_key: publicKey } };
}

function refuseBeyondScope({ scopes }: Pick<ClientCaller, 'scopes'>, topics: string[]): void {
  const patterns = scopes?.subscribe;
  if (patterns?.length === 0) throw new BusError('forbidden', 'this client may not subscribe');
  const beyond = topics.find((topic) => !allows(patterns, topic));
  if (beyond === undefined) return;
  throw new BusError('forbidden', `this client may not subscribe to ${beyond}`, {
    members: { field: `topics.${topics.indexOf(beyond)}` },
  });
}

function limitReached(outcome: 'too_many_topics' | 'too_many_subscribers'): BusError {
  const [what, setting] =
    outcome === 'too_many_topics'
      ? ['topics', 'ROUTEMASTER_MAX_TOPICS']
      : ['subscribers', 'ROUTEMASTER_MAX_SUBSCRIBERS'];
  const detail = `the bus has no room for more ${what}; nothing was changed. Remove some, or have ${setting} raised`;
  return new BusError('limit_reached', detail);
}
