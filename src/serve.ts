import { apiTokens } from './api/api_tokens.ts';
import { createApp } from './api/app.ts';
import { Authentication } from './api/authentication/authentication.ts';
import { Nonces } from './api/authentication/nonces.ts';
import { MOST_FAILURES, Slowing } from './api/authentication/slowing.ts';
import { deadLettersApi } from './api/dead_letters.ts';
import { metricsApi } from './api/metrics.ts';
import { Proxies } from './api/proxies.ts';
import { Publishing } from './api/publishing.ts';
import { healthApi, pulseApi } from './api/pulse.ts';
import { HttpServer } from './api/server.ts';
import { subscriptionsApi } from './api/subscriptions.ts';
import { topicsApi } from './api/topics.ts';
import { pause } from './clock.ts';
import type { Config } from './config.ts';
import type { Log } from './log.ts';
import { Clients } from './models/client.ts';
import { ClientDirectory } from './models/client_directory.ts';
import { Counters } from './models/counters.ts';
import { DeadLetters } from './models/dead_letters.ts';
import { FailedLogins } from './models/failed_logins.ts';
import { NonceCounts } from './models/nonce_counts.ts';
import { NonceKeys } from './models/nonce_keys.ts';
import { PublicNames } from './models/public_names.ts';
import { Queue } from './models/queue.ts';
import { Subscriptions } from './models/subscription.ts';
import { Topics } from './models/topic.ts';
import { connect } from './redis/connection.ts';
import { Store } from './redis/store.ts';
import { boot, onStop } from './runtime/process.ts';
import { CallbackPolicy } from './services/callback_policy.ts';
import { Recorder } from './services/metrics/recorder.ts';
import { Publisher } from './services/publish.ts';
import { RateLimit } from './services/rate_limit.ts';
import { StorageGuard } from './services/storage_guard.ts';

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
    nonces: new Nonces(new NonceKeys(store), new NonceCounts(store)),
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
