import { z } from 'zod';
import {
  type apiTokensApi,
  CLIENT,
  MADE_CLIENT,
  newClientInput,
  ROTATED,
  ROTATION,
  TOKEN_PARAMS,
} from '../authentication/api_tokens_api.ts';
import { DEAD_LETTER } from '../delivering/dead_letter.ts';
import {
  DEAD_LETTER_PARAMS,
  type deadLettersApi,
  PAGE,
  PURGED,
  RETRIED,
  WHOLE_DEAD_LETTER,
  WHOSE,
} from '../delivering/dead_letters_api.ts';
import type { Dialect } from '../dialect.ts';
import { HEALTH, type healthApi, PONG } from '../metrics/health_api.ts';
import { METRICS_TEXT, type metricsApi } from '../metrics/metrics_api.ts';
import { PAGE_QUERY } from '../paging.ts';
import { PUBLISH_ERRORS, PUBLISHED, type publishApi } from '../publishing/publish_api.ts';
import { type Route, route } from '../route.ts';
import {
  SIGNING_KEY,
  SUBSCRIBER_PARAMS,
  SUBSCRIBERS,
  type SubscriptionLimits,
  subscriptionInput,
  type subscriptionsApi,
} from '../subscribing/subscriptions_api.ts';
import { TOPIC_PARAMS, TOPICS, type topicsApi } from '../subscribing/topics_api.ts';
import { MAX_BODY_BYTES, MAX_PUBLISH_BYTES } from './body.ts';

export interface Apis {
  publishing: ReturnType<typeof publishApi>;
  topics: ReturnType<typeof topicsApi>;
  subscriptions: ReturnType<typeof subscriptionsApi>;
  deadLetters: ReturnType<typeof deadLettersApi>;
  apiTokens: ReturnType<typeof apiTokensApi>;
  health: ReturnType<typeof healthApi>;
  metrics: ReturnType<typeof metricsApi>;
  isRootKey: (text: string) => boolean;
  limits: SubscriptionLimits;
  dialect: Dialect;
}

/** The name of a topic has up to 64 characters; quotes, a comma and white space come with it. */
const BYTES_PER_TOPIC = 128;

const ANYONE = [] as const;
const CLIENTS = ['client'] as const;
const ROOT = ['root'] as const;
const BOTH = ['client', 'root'] as const;

const NOTHING = { 204: null } as const;

const PAGED = { query: PAGE_QUERY, errors: ['bad_query'] } as const;

/** All routes of the API. If two paths match a request, the first route handles it. */
export function routes(apis: Apis): Route[] {
  return [
    ...watchingRoutes(apis),
    ...topicRoutes(apis),
    ...subscriptionRoutes(apis),
    ...deadLetterRoutes(apis),
    ...apiTokenRoutes(apis),
  ];
}

function watchingRoutes({ health, metrics }: Apis): Route[] {
  const ping = { isHealthCheck: true, answers: { 200: PONG }, handle: health.ping } as const;
  return [
    route('GET /health', ANYONE, { isHealthCheck: true, answers: { 200: HEALTH }, handle: health.health }),
    route('GET /health/ping', ANYONE, ping),
    route('GET /health/ping.json', ANYONE, ping),
    route('GET /pulse', BOTH, { answers: NOTHING, handle: health.pulse }),
    route('GET /pulse/scaling', BOTH, { answers: NOTHING, handle: health.scaling }),
    route('GET /metrics', BOTH, { answers: { 200: METRICS_TEXT }, handle: metrics.show }),
  ];
}

function topicRoutes({ publishing, topics }: Apis): Route[] {
  const remove = {
    params: TOPIC_PARAMS,
    answers: NOTHING,
    errors: ['bad_topic', 'topic_not_found'],
    handle: topics.remove,
  } as const;
  return [
    route('GET /topics', BOTH, { ...PAGED, answers: { 200: TOPICS }, handle: topics.list }),
    route('POST /topics/:name', CLIENTS, {
      params: TOPIC_PARAMS,
      takesText: true,
      answers: PUBLISHED,
      maxBodyBytes: MAX_PUBLISH_BYTES,
      isFrequent: true,
      errors: PUBLISH_ERRORS,
      refuseEarly: publishing.refuseEarly,
      handle: publishing.publish,
    }),
    route('DELETE /topics/:name', BOTH, remove),
    route('DELETE /topic/:name', BOTH, remove),
  ];
}

function subscriptionRoutes({ subscriptions, limits, dialect }: Apis): Route[] {
  const list = { ...PAGED, answers: { 200: SUBSCRIBERS }, handle: subscriptions.list } as const;
  const subscribe = {
    body: subscriptionInput(limits, dialect),
    maxBodyBytes: Math.max(MAX_BODY_BYTES, limits.maxSubscriptionTopics * BYTES_PER_TOPIC),
    refuseEarly: subscriptions.refuseEarly,
    refuseLate: subscriptions.refuseLate,
    answers: { 200: SIGNING_KEY, 204: null },
    errors: ['bad_subscription', 'bad_topic', 'bad_callback', 'limit_reached', 'storage_full'],
    handle: subscriptions.subscribe,
  } as const;
  return [
    route('GET /subscriptions', BOTH, list),
    route('GET /subscribers', BOTH, list),
    route('POST /subscription', CLIENTS, subscribe),
    route('POST /subscriber', CLIENTS, subscribe),
    route('DELETE /subscriber', CLIENTS, {
      answers: NOTHING,
      errors: ['subscriber_not_found'],
      handle: subscriptions.leave,
    }),
    route('DELETE /subscriber/topics/:name', CLIENTS, {
      params: TOPIC_PARAMS,
      answers: NOTHING,
      errors: ['bad_topic', 'subscriber_not_found', 'topic_not_found', 'not_subscribed'],
      handle: subscriptions.unsubscribe,
    }),
    route('DELETE /subscribers/:token', ROOT, {
      params: SUBSCRIBER_PARAMS,
      answers: NOTHING,
      errors: ['subscriber_not_found'],
      handle: subscriptions.remove,
    }),
  ];
}

function deadLetterRoutes({ deadLetters }: Apis): Route[] {
  return [
    route('GET /dead_letters', BOTH, {
      query: PAGE,
      answers: { 200: z.array(DEAD_LETTER) },
      errors: ['bad_query'],
      handle: deadLetters.list,
    }),
    route('DELETE /dead_letters', BOTH, {
      query: WHOSE,
      answers: { 200: PURGED },
      errors: ['bad_query', 'subscriber_not_found'],
      handle: deadLetters.purgeAll,
    }),
    route('POST /dead_letters/retry', BOTH, {
      query: WHOSE,
      answers: { 200: RETRIED },
      errors: ['bad_query', 'subscriber_not_found', 'storage_full'],
      handle: deadLetters.retryAll,
    }),
    route('GET /dead_letters/:id', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: { 200: WHOLE_DEAD_LETTER },
      errors: ['dead_letter_not_found'],
      handle: deadLetters.read,
    }),
    route('DELETE /dead_letters/:id', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found'],
      handle: deadLetters.purge,
    }),
    route('POST /dead_letters/:id/retry', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found', 'subscriber_not_found', 'storage_full'],
      handle: deadLetters.retry,
    }),
  ];
}

type TokenParts = Pick<Apis, 'apiTokens' | 'isRootKey' | 'dialect'>;

export function apiTokenRoutes({ apiTokens, isRootKey, dialect }: TokenParts): Route[] {
  return [
    route('GET /api_tokens', ROOT, {
      ...PAGED,
      answers: { 200: z.array(CLIENT), 204: null },
      handle: apiTokens.list,
    }),
    route('POST /api_tokens', ROOT, {
      body: newClientInput(isRootKey, dialect),
      answers: { 201: MADE_CLIENT },
      errors: ['bad_client', 'client_has_secret', 'storage_full'],
      handle: apiTokens.create,
    }),
    route('DELETE /api_tokens/:token', ROOT, {
      params: TOKEN_PARAMS,
      answers: NOTHING,
      errors: ['bad_client'],
      handle: apiTokens.remove,
    }),
    route('POST /api_tokens/:token/secret', ROOT, {
      params: TOKEN_PARAMS,
      body: ROTATION,
      answers: { 200: ROTATED },
      errors: ['bad_client', 'client_not_found', 'storage_full'],
      handle: apiTokens.rotate,
    }),
  ];
}
