import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { apiTokens } from './api/api_tokens.ts';
import { createApp } from './api/app.ts';
import { Authentication } from './api/authentication/authentication.ts';
import { metricsApi } from './api/metrics.ts';
import { refuseMalformed } from './api/problems.ts';
import { healthApi, pulseApi } from './api/pulse.ts';
import { subscriptionsApi } from './api/subscriptions.ts';
import { topicsApi } from './api/topics.ts';
import type { Config } from './config.ts';
import { BootError } from './errors.ts';
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

/** One web process: listens at once, works as soon as Redis is prepared, drains at SIGTERM. */
export async function serve(config: Config, log: Log): Promise<void> {
  const store = new Store(connect(config.redisUrl, log));
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const state = { ready: false };
  const server = createServer(
    // Ours answers it as a problem.
    { requireHostHeader: false, requestTimeout: 30_000, keepAliveTimeout: 75_000 },
    buildApp(config, store, recorder, state, log),
  );
  server.on('clientError', refuseMalformed);
  const unused = unusedConnections(server);
  await listen(server, config.port, log);
  onStop(log, async () => {
    await close(server, unused);
    if (state.ready) recorder.processStopped('web');
    await counters.stop();
    store.redis.disconnect();
  });
  await boot(store, log);
  state.ready = true;
  counters.start();
  recorder.processStarted('web');
}

function buildApp(config: Config, store: Store, recorder: Recorder, state: { ready: boolean }, log: Log) {
  const clients = new Clients(store, config.clients);
  const directory = new ClientDirectory(clients);
  const publicNames = new PublicNames(directory);
  const authentication = new Authentication({ rootKey: config.rootKey, clients: directory, log });
  const subscriptions = new Subscriptions(store);
  const policy = new CallbackPolicy(config.callbackAllow);
  const aux = new Queue(store, 'aux');
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
      pulseApi({ authentication, store, main: new Queue(store, 'main'), ...config }),
      metricsApi({ authentication, store, config, publicNames, log }),
    ],
    log,
  });
}

async function listen(server: Server, port: number, log: Log): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const advice =
        cause.code === 'EADDRINUSE' ? `port ${port} is taken; set PORT to another` : cause.message;
      reject(new BootError(`Cannot listen: ${advice}.`, { cause }));
    });
    server.listen(port, resolve);
  });
  const address = server.address();
  log.info({ port: typeof address === 'object' ? address?.port : port }, 'listening');
}

/** The connections on which no request has come yet, now and later. */
function unusedConnections(server: Server): ReadonlySet<Socket> {
  const unused = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  server.on('request', ({ socket }) => unused.delete(socket));
  return unused;
}

/**
 * Takes no more connections, and ends each after the answer that is under way. Node does not count those that were never
 * used as idle, and a router that opened some in advance would keep us until the limit.
 */
async function close(server: Server, unused: ReadonlySet<Socket>): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  for (const socket of unused) socket.destroy();
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  await closed;
  clearInterval(sweep);
}
