import { apiTokens } from './api/api_tokens.ts';
import { createApp } from './api/app.ts';
import { Authentication } from './api/authentication/authentication.ts';
import { metricsApi } from './api/metrics.ts';
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

/** How long requests under way may take when the process is told to stop. */
const GRACE_MS = 20_000;

/** How long a boot takes that has a Redis: nobody is turned away meanwhile. */
const BOOT_MS = 1000;

/** One web process: listens when Redis is prepared, or without it after a second; drains at SIGTERM. */
export async function serve(config: Config, log: Log): Promise<void> {
  const store = new Store(connect(config.redisUrl, log));
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const state = { ready: false };
  const server = new HttpServer(buildApp(config, store, recorder, state, log));
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
  const authentication = new Authentication({ rootKey: config.rootKey, clients: directory, log });
  const subscriptions = new Subscriptions(store);
  const policy = new CallbackPolicy(config.callbackAllow);
  const aux = new Queue(store, 'aux', config.laneLimit);
  const removed = (token: string, events: number) => recorder.removed(token, events);
  const removeSubscriber = async (token: string) => removed(token, (await subscriptions.remove(token)) ?? 0);
  const storageFull = () => void aux.enqueue('autodrop', config.leaseMs).catch(() => {});
  return createApp({
    forceSsl: config.forceSsl,
    ready: () => state.ready,
    health: healthApi(),
    resources: [
      topicsApi({
        authentication,
        publisher: new Publisher(store, recorder),
        topics: new Topics(store),
        publicNames,
        limits: config,
        storageFull,
      }),
      subscriptionsApi({ authentication, subscriptions, policy, removed }),
      apiTokens({ clients, authentication, removeSubscriber }),
      pulseApi({ authentication, store, main: new Queue(store, 'main', config.laneLimit), ...config }),
      metricsApi({ authentication, store, config, publicNames, log }),
    ],
    log,
  });
}
