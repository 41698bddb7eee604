import { apiTokensApi } from './authentication/api_tokens_api.ts';
import { Authentication } from './authentication/authentication.ts';
import { Clients } from './authentication/client.ts';
import { ClientDirectory } from './authentication/client_directory.ts';
import { FailedLogins } from './authentication/failed_logins.ts';
import { LoginLimiter, MAX_FAILURES } from './authentication/login_limiter.ts';
import { NameKey } from './authentication/name_key.ts';
import { NonceKeys } from './authentication/nonce_keys.ts';
import { NonceUses } from './authentication/nonce_uses.ts';
import { Nonces } from './authentication/nonces.ts';
import { PublicNames } from './authentication/public_names.ts';
import type { Config } from './config.ts';
import { DeadLetters } from './delivering/dead_letters.ts';
import { deadLettersApi } from './delivering/dead_letters_api.ts';
import { Queue } from './delivering/queue.ts';
import type { Dialect } from './dialect.ts';
import { CallLimits } from './http/call_limits.ts';
import type { PipelineParts } from './http/pipeline.ts';
import { WorkBudget } from './http/work_budget.ts';
import type { Log } from './log.ts';
import { healthApi } from './metrics/health_api.ts';
import { metricsApi } from './metrics/metrics_api.ts';
import type { Recorder } from './metrics/recorder.ts';
import { Pages } from './paging.ts';
import { Proxies } from './proxies.ts';
import { maxClientKeys } from './publishing/idempotency.ts';
import { publishApi } from './publishing/publish_api.ts';
import { Publisher } from './publishing/publisher.ts';
import { RateLimit } from './publishing/rate_limit.ts';
import { StorageGuard } from './publishing/storage_guard.ts';
import type { Route } from './route.ts';
import type { QueueName } from './store/job.ts';
import type { Partitions } from './store/partitions.ts';
import { CallbackPolicy } from './subscribing/callback_policy.ts';
import { subscribersApi } from './subscribing/subscribers_api.ts';
import { Subscriptions } from './subscribing/subscription.ts';
import { subscriptionsApi } from './subscribing/subscriptions_api.ts';
import { Topics } from './subscribing/topic.ts';
import { topicsApi } from './subscribing/topics_api.ts';

interface ApiParts {
  config: Config;
  partitions: Partitions;
  recorder: Recorder;
  log: Log;
}

type Built = { routesIn: (dialect: Dialect) => Route[] } & Pick<
  PipelineParts,
  'authentication' | 'callLimits' | 'proxies'
>;

/** Creates the parts of a web process, and a function that makes the route table that uses them. */
export function buildApi({ config, partitions, recorder, log }: ApiParts): Built {
  const { control } = partitions;
  const clients = new Clients(control, config.clients);
  const directory = new ClientDirectory(clients);
  const nameKey = new NameKey(control);
  const publicNames = new PublicNames(directory, nameKey);
  const pages = new Pages(nameKey);
  const proxies = new Proxies(config.trustedProxies);
  const queues = (name: QueueName) => partitions.all.map((partition) => new Queue(partition, name, config));
  const [main, aux] = [queues('main'), queues('aux')];
  const storageFull = () => {
    for (const queue of aux) queue.enqueue('autodrop').catch(() => {});
  };
  const guard = new StorageGuard(partitions, config, storageFull);

  const authentication = new Authentication({
    rootKey: config.rootKey,
    clients: directory,
    nonces: new Nonces(new NonceKeys(control), new NonceUses(control, () => guard.maxBytes)),
    limiter: new LoginLimiter(new FailedLogins(control, MAX_FAILURES, log), proxies, recorder),
    md5: config.digestMd5,
    log,
  });

  const publishLimits = {
    ...config,
    // Read at each call, because the memory limit of Redis may change.
    get maxClientKeys() {
      return maxClientKeys(config.maxIdempotencyKeys, guard.maxBytes);
    },
  };
  const publisher = new Publisher(partitions, recorder, publishLimits, storageFull);

  const deadLetters = new DeadLetters(partitions, (token, events) => recorder.added(token, events));
  const subscriptions = new Subscriptions(partitions, config, deadLetters);
  const removed = (token: string, events: number) => recorder.removed(token, events);
  const removeSubscriber = async (token: string) => removed(token, (await subscriptions.remove(token)) ?? 0);
  const isSubscriber = (token: string) => subscriptions.has(token);
  const policy = new CallbackPolicy(config.callbackAllow, config);

  const budget = new WorkBudget();
  const rateLimit = RateLimit.of(control, config);

  const routesIn = (dialect: Dialect) => [
    ...healthApi({
      pingStore: () => Promise.all(partitions.all.map((each) => each.command((redis) => redis.ping()))),
      dueDeliveries: async () => {
        const due = await Promise.all(main.map((queue) => queue.due(config.scalingDeadlineMs)));
        return due.reduce((sum, each) => sum + each, 0);
      },
      scalingThreshold: config.scalingThreshold,
    }),
    ...metricsApi({ partitions, limits: config, publicNames, log }),
    ...publishApi({ publisher, limits: publishLimits, guard, rateLimit, budget, dialect }),
    ...topicsApi({ topics: new Topics(partitions), pages, publicNames, clients }),
    ...subscriptionsApi({ clients, subscriptions, policy, limits: config, dialect }),
    ...subscribersApi({ subscriptions, pages, publicNames, removed, dialect }),
    ...deadLettersApi({ deadLetters, isSubscriber, guard }),
    ...apiTokensApi({
      clients,
      pages,
      minTokenLength: config.minTokenLength,
      isRootKey: (text) => authentication.isRootKey(text),
      removeSubscriber,
      dialect,
    }),
  ];
  return { routesIn, authentication, callLimits: new CallLimits(config, proxies), proxies };
}
