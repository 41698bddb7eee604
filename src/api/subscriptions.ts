import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import { BusError } from '../errors.ts';
import type { Subscription, Subscriptions } from '../models/subscription.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../models/topic.ts';
import type { CallbackPolicy } from '../services/callback_policy.ts';
import type { Authentication } from './authentication/authentication.ts';
import { type Caller, callerOf } from './authentication/caller.ts';
import { jsonBody } from './body.ts';
import { onlyMethods } from './problems.ts';

const MOST_TOPICS = 1000;
const LONGEST_TIMEOUT_MS = 3_600_000;
const MOST_MAX_EVENTS = 10_000;

const topicRule = `a topic name has ${TOPIC_NAME_RULE}`;
const topicName = z.string(topicRule).regex(TOPIC_NAME, topicRule);
const wholeNumber = (min: number, max: number) =>
  z
    .int(`must be a whole number from ${min} to ${max}`)
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);

const REQUEST = z.strictObject({
  topics: z
    .array(topicName, 'must be an array of topic names')
    .max(MOST_TOPICS, `must have at most ${MOST_TOPICS} names`),
  callback: z.string('must be a URL'),
  // The user name of Basic authentication, which cannot hold a colon or control characters (RFC 7617).
  uuid: z
    .string('must be a string')
    .max(255, 'must have at most 255 characters')
    .regex(/^[^:\p{Cc}]*$/u, 'must have no colon and no control characters')
    .nullish(),
  timeout: wholeNumber(0, LONGEST_TIMEOUT_MS).nullish(),
  max: wholeNumber(1, MOST_MAX_EVENTS).nullish(),
});

export interface SubscriptionsParts {
  authentication: Authentication;
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

  const list: RequestHandler = async (request, response) => {
    const caller = callerOf(request);
    response.json(await subscriptions.list(caller.role === 'client' ? caller.token : undefined));
  };
  const subscribe: RequestHandler = async (request, response) => {
    const wanted = await readSubscription(request.body, parts.policy);
    await subscriptions.subscribe(tokenOf(callerOf(request)), wanted);
    response.writeHead(204).end();
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

/** Throws bad_subscription, bad_topic or bad_callback, with the `field`. */
async function readSubscription(body: unknown, policy: CallbackPolicy): Promise<Subscription> {
  const read = REQUEST.safeParse(body);
  if (!read.success) throw refused(read.error.issues[0]);
  const { topics, callback, uuid, timeout, max } = read.data;
  const refusal = await policy.refusal(callback);
  if (refusal !== undefined)
    throw new BusError('bad_callback', `callback: ${refusal}`, { members: { field: 'callback' } });
  return { topics, callback, uuid: uuid ?? '', timeoutMs: timeout ?? undefined, maxEvents: max ?? undefined };
}

function refused(issue: z.core.$ZodIssue | undefined): BusError {
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  if (unknown !== undefined) {
    const detail = `unknown field ${JSON.stringify(unknown)}; use topics, callback, uuid, timeout, max`;
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
