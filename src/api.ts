import { apiTokensApi } from './authentication/api_tokens_api.ts';
import { Authentication } from './authentication/authentication.ts';
import { Clients } from './authentication/client.ts';
import { ClientDirectory } from './authentication/client_directory.ts';
import { FailedLogins } from './authentication/failed_logins.ts';
import { LoginLimiter, MAX_FAILURES } from './authentication/login_limiter.ts';
import { NonceKeys } from './authentication/nonce_keys.ts';
import { NonceUses } from './authentication/nonce_uses.ts';
import { Nonces } from './authentication/nonces.ts';
import { PublicNames } from './authentication/public_names.ts';
import type { Config } from './config.ts';
import { DeadLetters } from './delivering/dead_letters.ts';
import { deadLettersApi } from './delivering/dead_letters_api.ts';
import { Queue } from './delivering/queue.ts';
import type { PipelineParts } from './http/pipeline.ts';
import { routes } from './http/routes.ts';
import type { Log } from './log.ts';
import { healthApi } from './metrics/health_api.ts';
import { metricsApi } from './metrics/metrics_api.ts';
import type { Recorder } from './metrics/recorder.ts';
import { Proxies } from './proxies.ts';
import { publishApi } from './publishing/publish_api.ts';
import { Publisher } from './publishing/publisher.ts';
import { RateLimit } from './publishing/rate_limit.ts';
import { StorageGuard } from './publishing/storage_guard.ts';
import type { Route } from './route.ts';
import type { Store } from './store/store.ts';
import { CallbackPolicy } from './subscribing/callback_policy.ts';
import { Subscriptions } from './subscribing/subscription.ts';
import { subscriptionsApi } from './subscribing/subscriptions_api.ts';
import { Topics } from './subscribing/topic.ts';
import { topicsApi } from './subscribing/topics_api.ts';

export interface ApiParts {
  config: Config;
  store: Store;
  recorder: Recorder;
  log: Log;
}

type Built = { routes: Route[] } & Pick<PipelineParts, 'authentication' | 'proxies'>;

/** Creates the parts of a web process and the route table that uses them. */
export function buildApi({ config, store, recorder, log }: ApiParts): Built {
  const clients = new Clients(store, config.clients);
  const directory = new ClientDirectory(clients);
  const publicNames = new PublicNames(directory);
  const proxies = new Proxies(config.trustedProxies);
  const authentication = new Authentication({
    rootKey: config.rootKey,
    clients: directory,
    nonces: new Nonces(new NonceKeys(store), new NonceUses(store)),
    limiter: new LoginLimiter(new FailedLogins(store, MAX_FAILURES, log), proxies, recorder),
    md5: config.digestMd5,
    log,
  });

  const main = new Queue(store, 'main', config);
  const aux = new Queue(store, 'aux', config);
  const storageFull = () => void aux.enqueue('autodrop').catch(() => {});
  const guard = new StorageGuard(store, config, storageFull);
  const { idempotencyWindowMs, maxTopics } = config;
  const publisher = new Publisher(store, recorder, idempotencyWindowMs, storageFull, maxTopics);

  const deadLetters = new DeadLetters(store, (token, events) => recorder.added(token, events));
  const subscriptions = new Subscriptions(store, config, deadLetters);
  const removed = (token: string, events: number) => recorder.removed(token, events);
  const removeSubscriber = async (token: string) => removed(token, (await subscriptions.remove(token)) ?? 0);
  const isSubscriber = (token: string) => subscriptions.has(token);
  const policy = new CallbackPolicy(config.callbackAllow, config);

  const table = routes({
    publishing: publishApi({ publisher, limits: config, guard, rateLimit: RateLimit.of(store, config) }),
    topics: topicsApi(new Topics(store), publicNames),
    subscriptions: subscriptionsApi({ clients, subscriptions, policy, removed }),
    deadLetters: deadLettersApi({ deadLetters, isSubscriber, guard }),
    apiTokens: apiTokensApi({ clients, removeSubscriber }),
    health: healthApi({
      pingStore: () => store.command((redis) => redis.ping()),
      dueDeliveries: () => main.due(config.scalingDeadlineMs),
      scalingThreshold: config.scalingThreshold,
    }),
    metrics: metricsApi({ store, limits: config, publicNames, log }),
    isRootKey: (text) => authentication.isRootKey(text),
    limits: config,
  });
  return { routes: table, authentication, proxies };
}
