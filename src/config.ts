import { ENVIRONMENT } from './environment.ts';
import { BootError } from './errors.ts';
import type { LogLevel } from './log.ts';

/** What stands in examples, and is forgotten there. Hardly any random text is: `a-` alone would begin one key in a thousand. */
const PLACEHOLDER =
  /change.?me|placeholder|^(your|my|the|some|example|sample|test|demo|default|root|admin|replace|insert)[-_.]|^(secret|password)/i;
/** Anybody may try keys, as fast as the bus can refuse them. */
const SHORTEST_ROOT_KEY = 16;

/** What the processes run with; times in milliseconds, sizes in bytes. Plain data: it is handed to threads. */
export interface Config {
  port: number;
  webProcesses: number;
  environment: string;
  appName: string;
  forceSsl: boolean;
  trustedProxies: number;
  digestMd5: boolean;
  redisUrl: string;
  redisTls: { ca: string | undefined; verify: boolean };
  rootKey: string;
  clients: string[];
  maxConnections: number;
  requestTimeoutMs: number;
  publishRate: number;
  publishBytes: number;
  publishBurstMs: number;
  maxTopics: number;
  maxSubscribers: number;
  maxSubscriptionTopics: number;
  workerThreads: number;
  workersPerThread: number;
  laneLimit: number;
  laneLimitMax: number;
  maxAttempts: number;
  maxAgeMs: number;
  sweepIntervalMs: number;
  idempotencyWindowMs: number;
  leaseMs: number;
  acquireTimeoutMs: number;
  deliveryTimeoutMs: number;
  connectTimeoutMs: number;
  sslVerify: boolean;
  callbackAllow: string[];
  callbackPorts: string[];
  callbackCa: string | undefined;
  egressProxy: string | undefined;
  healRate: number;
  damageRate: number;
  maxBackoffMs: number;
  redisMaxBytes: number;
  redisMinFreeBytes: number;
  monitorIntervalMs: number;
  counterFlushIntervalMs: number;
  scalingThreshold: number;
  scalingDeadlineMs: number;
  maxEventDataBytes: number;
  logLevel: LogLevel;
  metricService: 'print' | 'prometheus' | 'datadog';
  dogstatsd: { host: string; port: number };
}

/**
 * Reads and checks the environment; an empty variable counts as unset.
 * Throws a BootError that names every variable that is wrong, and what it must be; never a value, which may be secret.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Readonly<Config> {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
  const read = ENVIRONMENT.safeParse(given);
  if (!read.success) {
    const lines = read.error.issues.map((issue) => `  ${issue.path.join('.')} ${issue.message}`);
    throw new BootError(`The environment is not right:\n${lines.join('\n')}`);
  }
  const e = read.data;
  const production = e.NODE_ENV === 'production';
  const forceSsl = e.FORCE_SSL ?? production;
  const trustedProxies = e.ROUTEMASTER_TRUSTED_PROXIES ?? Number(forceSsl);
  if (production) refuseWeak(e.ROUTEMASTER_ROOT_KEY);
  if (forceSsl && trustedProxies === 0) {
    throw new BootError(
      'FORCE_SSL is on and ROUTEMASTER_TRUSTED_PROXIES is 0: nobody could say that a request came by https. ' +
        'Set it to the number of routers in front, or FORCE_SSL to no.',
    );
  }
  return Object.freeze({
    port: e.PORT,
    webProcesses: e.WEB_CONCURRENCY,
    environment: e.NODE_ENV,
    appName: e.ROUTEMASTER_APP_NAME,
    forceSsl,
    trustedProxies,
    digestMd5: e.ROUTEMASTER_DIGEST_MD5,
    redisUrl: namedVariable(e.ROUTEMASTER_REDIS_URL, given),
    redisTls: { ca: e.ROUTEMASTER_REDIS_CA, verify: e.ROUTEMASTER_REDIS_SSL_VERIFY },
    rootKey: e.ROUTEMASTER_ROOT_KEY,
    clients: e.ROUTEMASTER_CLIENTS,
    maxConnections: e.ROUTEMASTER_MAX_CONNECTIONS,
    requestTimeoutMs: e.ROUTEMASTER_REQUEST_TIMEOUT,
    publishRate: e.ROUTEMASTER_PUBLISH_RATE,
    publishBytes: e.ROUTEMASTER_PUBLISH_BYTES,
    publishBurstMs: e.ROUTEMASTER_PUBLISH_BURST,
    maxTopics: e.ROUTEMASTER_MAX_TOPICS,
    maxSubscribers: e.ROUTEMASTER_MAX_SUBSCRIBERS,
    maxSubscriptionTopics: e.ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS,
    workerThreads: e.ROUTEMASTER_WORKER_THREADS,
    workersPerThread: e.ROUTEMASTER_WORKERS_PER_THREAD,
    laneLimit: e.ROUTEMASTER_LANE_LIMIT,
    laneLimitMax: e.ROUTEMASTER_LANE_LIMIT_MAX,
    maxAttempts: e.ROUTEMASTER_MAX_ATTEMPTS,
    maxAgeMs: e.ROUTEMASTER_MAX_AGE,
    sweepIntervalMs: e.ROUTEMASTER_SWEEP_INTERVAL,
    idempotencyWindowMs: e.ROUTEMASTER_IDEMPOTENCY_WINDOW,
    leaseMs: e.ROUTEMASTER_WORKER_LEASE,
    acquireTimeoutMs: e.ROUTEMASTER_ACQUIRE_TIMEOUT,
    deliveryTimeoutMs: e.ROUTEMASTER_TIMEOUT,
    connectTimeoutMs: e.ROUTEMASTER_CONNECT_TIMEOUT,
    sslVerify: e.ROUTEMASTER_SSL_VERIFY,
    callbackAllow: e.ROUTEMASTER_CALLBACK_ALLOW,
    callbackPorts: e.ROUTEMASTER_CALLBACK_PORTS,
    callbackCa: e.ROUTEMASTER_CALLBACK_CA,
    egressProxy: e.ROUTEMASTER_EGRESS_PROXY,
    healRate: e.ROUTEMASTER_HP_HEAL_RATE,
    damageRate: -e.ROUTEMASTER_HP_DAMAGE_RATE,
    maxBackoffMs: e.MAX_BACKOFF_MS,
    redisMaxBytes: e.ROUTEMASTER_REDIS_MAX_MEM,
    redisMinFreeBytes: e.ROUTEMASTER_REDIS_MIN_FREE,
    monitorIntervalMs: e.ROUTEMASTER_MONITOR_INTERVAL,
    counterFlushIntervalMs: e.ROUTEMASTER_COUNTER_FLUSH_INTERVAL,
    scalingThreshold: e.ROUTEMASTER_SCALING_THRESHOLD,
    scalingDeadlineMs: e.ROUTEMASTER_SCALING_DEADLINE,
    maxEventDataBytes: e.ROUTEMASTER_MAX_EVENT_DATA,
    logLevel: e.ROUTEMASTER_LOG_LEVEL,
    metricService: e.METRIC_COLLECTION_SERVICE,
    dogstatsd: { host: e.DD_AGENT_HOST, port: e.DD_DOGSTATSD_PORT },
  });
}

function refuseWeak(rootKey: string): void {
  const weak = PLACEHOLDER.test(rootKey)
    ? 'looks like a placeholder'
    : rootKey.length < SHORTEST_ROOT_KEY
      ? `has fewer than ${SHORTEST_ROOT_KEY} characters`
      : undefined;
  if (weak !== undefined)
    throw new BootError(
      `ROUTEMASTER_ROOT_KEY ${weak}, which is not for production: set it to what \`openssl rand -hex 24\` prints.`,
    );
}

/** As in Routemaster, the Redis URL may be the name of the variable that holds it (Heroku's add-ons name their own). */
function namedVariable(value: string, env: NodeJS.ProcessEnv): string {
  if (!/^[A-Z][A-Z0-9_]*$/.test(value)) return value;
  const named = env[value];
  if (named === undefined) throw new BootError(`ROUTEMASTER_REDIS_URL names ${value}, which is not set.`);
  return named;
}
