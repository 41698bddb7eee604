import { apiTokens } from './authentication/api_tokens.ts';
import { Authentication } from './authentication/authentication.ts';
import { Clients } from './authentication/client.ts';
import { ClientDirectory } from './authentication/client_directory.ts';
import { FailedLogins } from './authentication/failed_logins.ts';
import { MOST_FAILURES, Slowing } from './authentication/login_limiter.ts';
import { NonceKeys } from './authentication/nonce_keys.ts';
import { NonceUses } from './authentication/nonce_uses.ts';
import { Nonces } from './authentication/nonces.ts';
import { PublicNames } from './authentication/public_names.ts';
import { pause } from './clock.ts';
import type { Config } from './config.ts';
import { DeadLetters } from './delivering/dead_letters.ts';
import { deadLettersApi } from './delivering/dead_letters_api.ts';
import { Queue } from './delivering/queue.ts';
import { createApp } from './http/app.ts';
import { metricsApi } from './http/metrics.ts';
import { Proxies } from './http/proxies.ts';
import { healthApi, pulseApi } from './http/pulse.ts';
import { HttpServer } from './http/server.ts';
import type { Log } from './log.ts';
import { Counters } from './metrics/counters.ts';
import { Recorder } from './metrics/recorder.ts';
import { boot, onStop } from './process.ts';
import { Publishing } from './publishing/publish_route.ts';
import { Publisher } from './publishing/publisher.ts';
import { RateLimit } from './publishing/rate_limit.ts';
import { StorageGuard } from './publishing/storage_guard.ts';
import { connect } from './store/connection.ts';
import { Store } from './store/store.ts';
import { CallbackPolicy } from './subscribing/callback_policy.ts';
import { Subscriptions } from './subscribing/subscription.ts';
import { subscriptionsApi } from './subscribing/subscriptions_api.ts';
import { Topics } from './subscribing/topic.ts';
import { topicsApi } from './subscribing/topics_api.ts';

/** How long requests under way may take when the process is told to stop. */
const GRACE_MS = 20_000;

/** How long a boot takes that has a Redis: nobody is turned away meanwhile. */
const BOOT_MS = 1000;

/** One web process: listens when Redis is prepared, or without it after a second; drains at SIGTERM. */
export async function serve(config: Config, log: Log): Promise<void> {
  const store = new Store(connect(config.redisUrl, log, config.redisTls), { log });
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const state = { ready: false };
  const server = new HttpServer(buildApp(config, store, recorder, state, log), config);
  onStop(log, async () => {
    await server.close(GRACE_MS);
    if (state.ready) recorder.processStopped('web');
    await counters.stop();
    store.redis.disconnect();
  });
  const booting = boot(store, log).then(() => {
    state.ready = true;
    counters.start();
    recorder.processStarted('web');
  });
  // While Redis is away it listens all the same, and says so to who calls.
  await Promise.race([booting, pause(BOOT_MS)]);
  log.info({ port: await server.listen(config.port) }, 'listening');
  await booting;
}

function buildApp(config: Config, store: Store, recorder: Recorder, state: { ready: boolean }, log: Log) {
  const clients = new Clients(store, config.clients);
  const directory = new ClientDirectory(clients);
  const publicNames = new PublicNames(directory);
  const proxies = new Proxies(config.trustedProxies);
  const authentication = new Authentication({
    rootKey: config.rootKey,
    clients: directory,
    nonces: new Nonces(new NonceKeys(store), new NonceUses(store)),
    slowing: new Slowing(new FailedLogins(store, MOST_FAILURES, log), proxies, recorder),
    md5: config.digestMd5,
    log,
  });
  const deadLetters = new DeadLetters(store, (token, events) => recorder.added(token, events));
  const subscriptions = new Subscriptions(store, config, deadLetters);
  const policy = new CallbackPolicy(config.callbackAllow, config);
  const aux = new Queue(store, 'aux', config);
  const removed = (token: string, events: number) => recorder.removed(token, events);
  const removeSubscriber = async (token: string) => removed(token, (await subscriptions.remove(token)) ?? 0);
  const storageFull = () => void aux.enqueue('autodrop').catch(() => {});
  const guard = new StorageGuard(store, config, storageFull);
  const { idempotencyWindowMs, maxTopics } = config;
  const publisher = new Publisher(store, recorder, idempotencyWindowMs, storageFull, maxTopics);
  const rateLimit = RateLimit.of(store, config);
  const publishing = new Publishing({ authentication, publisher, limits: config, guard, rateLimit });
  const mosts = { mostInFlight: config.laneLimitMax, mostTopics: config.maxSubscriptionTopics };
  return createApp({
    forceSsl: config.forceSsl,
    proxies,
    ready: () => state.ready,
    health: healthApi(),
    resources: [
      topicsApi({ authentication, publishing, topics: new Topics(store), publicNames }),
      subscriptionsApi({ authentication, clients, subscriptions, policy, ...mosts, removed }),
      deadLettersApi({ authentication, deadLetters, guard }),
      apiTokens({ clients, authentication, removeSubscriber }),
      pulseApi({ authentication, store, main: new Queue(store, 'main', config), ...config }),
      metricsApi({ authentication, store, config, publicNames, log }),
    ],
    publishing,
    log,
  });
}
