import { z } from 'zod';
import type { Clients } from '../authentication/client.ts';
import { allows } from '../authentication/scope.ts';
import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import type { ClientCaller } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { CLIENTS, MAX_BODY_BYTES, NO_CONTENT, NOTHING, ok, type Route, route } from '../routing/route.ts';
import type { CallbackPolicy } from './callback_policy.ts';
import { splitCallback } from './callback_url.ts';
import { newKeyPair, newSecret } from './signing_keys.ts';
import type { Subscribers } from './subscriber.ts';
import type { Subscriptions } from './subscription.ts';
import {
  ED25519,
  type SubscriptionLimits,
  type SubscriptionRequest,
  subscriptionInput,
  UUID,
  wantedBy,
} from './subscription_input.ts';
import { TOPIC_PARAMS } from './topics_api.ts';

/**
 * Maximum bytes of a topic in the body: a name of up to 64 characters, quotes, a comma and some white space; in a form
 * of the console, an encoded line end.
 */
const BYTES_PER_TOPIC = 128;

/** Returns the maximum bytes of a body that subscribes to as many topics as a client may. */
export function maxSubscriptionBytes({
  maxSubscriptionTopics,
}: Pick<Config, 'maxSubscriptionTopics'>): number {
  return Math.max(MAX_BODY_BYTES, maxSubscriptionTopics * BYTES_PER_TOPIC);
}

/**
 * In the rate limit, a request to subscribe counts as one more call for each 100 topics. A thousand topics take Redis
 * about 5 ms.
 */
const TOPICS_PER_CALL = 100;

const SIGNING_KEY = z.union([z.object({ signing_secret: z.string() }), z.object({ public_key: z.string() })]);

interface SubscriptionsParts {
  clients: Pick<Clients, 'find'>;
  subscribers: Pick<Subscribers, 'remove'>;
  subscriptions: Subscriptions;
  policy: CallbackPolicy;
  limits: SubscriptionLimits;
  dialect: Pick<Dialect, 'cutsMax'>;
}

/**
 * The routes by which a client subscribes (`/subscription`, or its other name `/subscriber`) and leaves one topic. The
 * route by which it leaves all topics, `DELETE /subscriber`, is in subscribers_api.ts.
 */
export function subscriptionsApi(parts: SubscriptionsParts): Route[] {
  const { clients, subscribers, subscriptions, policy, limits, dialect } = parts;
  /**
   * Undoes a subscription if the client lost its permission while it subscribed. If the client was removed, removes the
   * subscriber too. If the scopes of the client changed, ends the subscriptions that they do not permit. If a client is
   * removed only after this check, that removal finds the subscriber, and removes it too.
   */
  const undoUnlessPermitted = async (token: string, topics: string[]) => {
    const client = await clients.find(token);
    if (!client) {
      await subscribers.remove(token);
      throw new BusError('forbidden', 'this client was removed');
    }
    for (const topic of topics)
      if (!allows(client.scopes?.subscribe, topic)) await subscriptions.unsubscribe(token, topic);
    refuseBeyondScope(client, topics);
  };

  const subscribing = {
    action: 'subscription.put',
    body: subscriptionInput(limits, dialect),
    maxBodyBytes: maxSubscriptionBytes(limits),
    refuseEarly({ caller }: { caller: ClientCaller }) {
      refuseBeyondScope(caller, []);
    },
    /**
     * Checks the callback. If an attacker runs the DNS server, the look-up of the host name can take two seconds. The
     * client may be removed meanwhile, so its credentials are checked again afterwards.
     */
    async refuseLate({ body }: { body: SubscriptionRequest }) {
      const { user, callback } = splitCallback(body.callback);
      if (uuidOf(user) === undefined) throw badCallback('its user name cannot be a uuid');
      const refusal = await policy.refusal(callback);
      if (refusal !== undefined) throw badCallback(refusal);
    },
    answers: { 200: SIGNING_KEY, 204: null },
    errors: ['bad_subscription', 'bad_topic', 'bad_callback', 'limit_reached', 'storage_full'],
    async handle({ caller, body }: { caller: ClientCaller; body: SubscriptionRequest }) {
      const { user, callback } = splitCallback(body.callback);
      refuseBeyondScope(caller, body.topics);
      const { signingKey, answer } = signing(body.signing_secret ?? undefined);
      const outcome = await subscriptions.subscribe(caller.token, {
        ...wantedBy(body),
        callback,
        uuid: body.uuid || uuidOf(user) || '',
        signingKey,
      });
      if (outcome !== 'ok') throw limitReached(outcome);
      await undoUnlessPermitted(caller.token, body.topics);
      const priceInCalls = body.topics.length / TOPICS_PER_CALL;
      return answer
        ? { ...ok(answer), headers: { 'Cache-Control': 'no-store' }, priceInCalls }
        : { ...NO_CONTENT, priceInCalls };
    },
  } as const;
  return [
    route('POST /subscription', CLIENTS, subscribing),
    route('POST /subscriber', CLIENTS, subscribing),
    route('DELETE /subscriber/topics/:name', CLIENTS, {
      action: 'subscription.delete',
      params: TOPIC_PARAMS,
      answers: NOTHING,
      errors: ['bad_topic', 'subscriber_not_found', 'topic_not_found', 'not_subscribed'],
      async handle({ caller, params: { name } }) {
        const outcome = await subscriptions.unsubscribe(caller.token, name);
        if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'you are not a subscriber');
        if (outcome === 'topic_not_found') throw new BusError(outcome, `there is no topic ${name}`);
        if (outcome === 'not_subscribed') throw new BusError(outcome, `you are not subscribed to ${name}`);
        return NO_CONTENT;
      },
    }),
  ];
}

/** Decodes the user name of a callback. Returns undefined if it cannot be a `uuid`. */
function uuidOf(user: string): string | undefined {
  try {
    const uuid = decodeURIComponent(user);
    return UUID.test(uuid) ? uuid : undefined;
  } catch {
    // The decoded user name is not UTF-8, as with `%FF`.
    return undefined;
  }
}

function badCallback(rule: string): BusError {
  return new BusError('bad_callback', `callback: ${rule}`, { members: { field: 'callback' } });
}

/**
 * Returns the signing key that a request asks for: null ends signing, and undefined keeps the present key. If the bus
 * makes the key, also returns what the answer shows of it: the secret or the public key.
 */
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
