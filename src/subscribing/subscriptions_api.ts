import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { Authentication } from '../authentication/authentication.ts';
import { type Caller, callerOf } from '../authentication/caller.ts';
import type { Clients } from '../authentication/client.ts';
import { allows } from '../authentication/scope.ts';
import { isSecret, newKeyPair, newSecret } from '../delivering/signatures.ts';
import { BusError } from '../errors.ts';
import { jsonBody } from '../http/body.ts';
import { onlyMethods } from '../http/problems.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../topic_name.ts';
import type { CallbackPolicy } from './callback_policy.ts';
import type { SubscribeOutcome, Subscription, Subscriptions } from './subscription.ts';

const LONGEST_TIMEOUT_MS = 3_600_000;
const MOST_MAX_EVENTS = 10_000;
const MOST_ATTEMPTS = 1_000_000;
const SHORTEST_AGE_MS = 1000;
const LONGEST_AGE_MS = 365 * 86_400_000;

/** What asks for signatures by a key pair, of which the subscriber gets the public key. */
const ED25519 = 'ed25519';

const topicRule = `a topic name has ${TOPIC_NAME_RULE}`;
const topicName = z.string(topicRule).regex(TOPIC_NAME, topicRule);
const wholeNumber = (min: number, max: number) =>
  z
    .int(`must be a whole number from ${min} to ${max}`)
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);

const requestSchema = ({ mostInFlight, mostTopics }: Mosts) =>
  z.strictObject({
    topics: z
      .array(topicName, 'must be an array of topic names')
      .max(mostTopics, `must have at most ${mostTopics} names`),
    callback: z.string('must be a URL'),
    // The user name of Basic authentication, which cannot hold a colon or control characters (RFC 7617).
    uuid: z
      .string('must be a string')
      .max(255, 'must have at most 255 characters')
      .regex(/^[^:\p{Cc}]*$/u, 'must have no colon and no control characters')
      .nullish(),
    timeout: wholeNumber(0, LONGEST_TIMEOUT_MS).nullish(),
    max: wholeNumber(1, MOST_MAX_EVENTS).nullish(),
    ordered: z.boolean('must be true or false').nullish(),
    max_in_flight: wholeNumber(1, mostInFlight).nullish(),
    max_attempts: wholeNumber(1, MOST_ATTEMPTS).nullish(),
    max_age: wholeNumber(SHORTEST_AGE_MS, LONGEST_AGE_MS).nullish(),
    signing_secret: z
      .custom<boolean | string>(
        (value) =>
          typeof value === 'boolean' || value === ED25519 || (typeof value === 'string' && isSecret(value)),
        `must be true, "${ED25519}", false, or whsec_ and 24 to 64 bytes in Base64`,
      )
      .nullish(),
  });

const FIELDS = Object.keys(requestSchema({ mostInFlight: 1, mostTopics: 1 }).shape).join(', ');

type RequestSchema = ReturnType<typeof requestSchema>;

interface Mosts {
  /** The most deliveries in flight that a subscriber may ask for. */
  mostInFlight: number;
  /** The most topics that it may subscribe to. */
  mostTopics: number;
}

export interface SubscriptionsParts extends Mosts {
  authentication: Authentication;
  clients: Pick<Clients, 'find'>;
  subscriptions: Subscriptions;
  policy: CallbackPolicy;
  /** Told how many events were dropped with the queue of a subscriber that left. */
  removed: (token: string, events: number) => void;
}

/** `/subscription`, `/subscriptions`, `/subscriber`, `/subscribers`. */
export function subscriptionsApi(parts: SubscriptionsParts): Router {
  const { authentication, subscriptions } = parts;
  const client = authentication.require('client');
  const root = authentication.require('root');
  const either = authentication.require('client', 'root');
  const router = Router({ strict: true, caseSensitive: true });
  const schema = requestSchema(parts);

  const list: RequestHandler = async (request, response) => {
    const caller = callerOf(request);
    response.json(await subscriptions.list(caller.role === 'client' ? caller.token : undefined));
  };
  const subscribe: RequestHandler = async (request, response) => {
    const caller = callerOf(request);
    const token = tokenOf(caller);
    const { wanted, told } = await readSubscription(request.body, schema, parts.policy);
    refuseBeyondScope(caller, wanted.topics);
    const outcome = await subscriptions.subscribe(token, wanted);
    if (outcome !== 'ok') throw noRoom(outcome);
    await endIfRemoved(parts, token);
    if (told) response.set('Cache-Control', 'no-store').json(told);
    else response.writeHead(204).end();
  };

  router.route('/subscriptions').get(either, list).all(onlyMethods('GET'));
  router.route('/subscribers').get(either, list).all(onlyMethods('GET'));
  router.route('/subscription').post(client, jsonBody, subscribe).all(onlyMethods('POST'));
  router
    .route('/subscriber')
    .post(client, jsonBody, subscribe)
    .delete(client, async (request, response) => {
      await remove(parts, tokenOf(callerOf(request)));
      response.writeHead(204).end();
    })
    .all(onlyMethods('POST', 'DELETE'));
  router
    .route('/subscriber/topics/:name')
    .delete(client, async (request, response) => {
      await unsubscribe(subscriptions, tokenOf(callerOf(request)), request.params.name);
      response.writeHead(204).end();
    })
    .all(onlyMethods('DELETE'));
  router
    .route('/subscribers/:token')
    .delete(root, async (request, response) => {
      await remove(parts, request.params.token);
      response.writeHead(204).end();
    })
    .all(onlyMethods('DELETE'));
  return router;
}

/** What the answer tells of a key that the bus made. */
type Told = { signing_secret: string } | { public_key: string };

/** Throws bad_subscription, bad_topic or bad_callback, with the `field`. */
async function readSubscription(
  body: unknown,
  schema: RequestSchema,
  policy: CallbackPolicy,
): Promise<{ wanted: Subscription; told?: Told | undefined }> {
  const read = schema.safeParse(body);
  if (!read.success) throw refused(read.error.issues[0]);
  const { topics, callback, uuid } = read.data;
  const refusal = await policy.refusal(callback);
  if (refusal !== undefined)
    throw new BusError('bad_callback', `callback: ${refusal}`, { members: { field: 'callback' } });
  const { timeout, max, ordered, max_in_flight, max_attempts, max_age, signing_secret } = read.data;
  const { signingKey, told } = signing(signing_secret ?? undefined);
  const wanted = {
    topics,
    callback,
    uuid: uuid ?? '',
    timeoutMs: timeout ?? undefined,
    maxEvents: max ?? undefined,
    ordered: ordered ?? undefined,
    maxInFlight: max_in_flight ?? undefined,
    maxAttempts: max_attempts ?? undefined,
    maxAgeMs: max_age ?? undefined,
    signingKey,
  };
  return { wanted, told };
}

/** The key that is asked for, made if need be, and what the subscriber is told of it: this once. */
function signing(asked: boolean | string | undefined): {
  signingKey?: string | null | undefined;
  told?: Told;
} {
  if (asked === false) return { signingKey: null };
  if (asked === true) {
    const secret = newSecret();
    return { signingKey: secret, told: { signing_secret: secret } };
  }
  if (asked !== ED25519) return { signingKey: asked };
  const { privateKey, publicKey } = newKeyPair();
  return { signingKey: privateKey, told: { public_key: publicKey } };
}

function refused(issue: z.core.$ZodIssue | undefined): BusError {
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  if (unknown !== undefined) {
    const detail = `unknown field ${JSON.stringify(unknown)}; use ${FIELDS}`;
    return new BusError('bad_subscription', detail, { members: { field: unknown } });
  }
  const field = issue?.path.join('.') ?? '';
  if (field === '') return new BusError('bad_subscription', 'send an object with topics, callback and uuid');
  const code = /^topics\.\d+$/.test(field)
    ? 'bad_topic'
    : field === 'callback'
      ? 'bad_callback'
      : 'bad_subscription';
  return new BusError(code, `${field}: ${issue?.message}`, { members: { field } });
}

function refuseBeyondScope(caller: Caller, topics: string[]): void {
  const patterns = caller.role === 'client' ? caller.scopes?.subscribe : undefined;
  if (patterns?.length === 0) throw new BusError('forbidden', 'this client may not subscribe');
  const beyond = topics.find((topic) => !allows(patterns, topic));
  if (beyond === undefined) return;
  throw new BusError('forbidden', `this client may not subscribe to ${beyond}`, {
    members: { field: `topics.${topics.indexOf(beyond)}` },
  });
}

/**
 * A client that was removed a moment ago may still be known here, and get this far. Its removal ends its subscriber after the
 * client, so whichever comes last, that or this, sees both.
 */
async function endIfRemoved({ clients, subscriptions }: SubscriptionsParts, token: string): Promise<void> {
  if (await clients.find(token)) return;
  await subscriptions.remove(token);
  throw new BusError('forbidden', 'this client was removed');
}

function noRoom(outcome: Exclude<SubscribeOutcome, 'ok'>): BusError {
  const [what, setting] =
    outcome === 'too_many_topics'
      ? ['topics', 'ROUTEMASTER_MAX_TOPICS']
      : ['subscribers', 'ROUTEMASTER_MAX_SUBSCRIBERS'];
  const detail = `the bus has no room for more ${what}; nothing was changed. Remove some, or have ${setting} raised`;
  return new BusError('limit_reached', detail);
}

async function remove({ subscriptions, removed }: SubscriptionsParts, token: string): Promise<void> {
  const events = await subscriptions.remove(token);
  if (events === undefined) throw new BusError('subscriber_not_found', 'there is no such subscriber');
  if (events > 0) removed(token, events);
}

async function unsubscribe(subscriptions: Subscriptions, token: string, topic: string): Promise<void> {
  if (!TOPIC_NAME.test(topic)) throw new BusError('bad_topic', topicRule);
  const outcome = await subscriptions.unsubscribe(token, topic);
  if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'you are not a subscriber');
  if (outcome === 'topic_not_found') throw new BusError(outcome, `there is no topic ${topic}`);
  if (outcome === 'not_subscribed') throw new BusError(outcome, `you are not subscribed to ${topic}`);
}

/** Only clients get here. */
function tokenOf(caller: Caller): string {
  if (caller.role === 'client') return caller.token;
  throw new BusError('forbidden', 'root neither publishes nor subscribes; use the credentials of a client');
}
