import { z } from 'zod';
import {
  bytes,
  certificates,
  compatibility,
  dropPolicy,
  keyPrefix,
  list,
  logLevel,
  MAX_TIMER_MS,
  metricService,
  proxy,
  rootKey,
  seconds,
  tokens,
  viewerKey,
  whole,
  yesNo,
} from './values.ts';

export interface Setting<T> {
  variable: string;
  type: z.ZodType<T>;
  /** The default, written as the value of the environment variable. Undefined if there is no default. */
  unset: string | undefined;
  help: string;
}

function setting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, help }) };
}

const needed = {
  rootKey: setting('ROUTEMASTER_ROOT_KEY', rootKey).help(
    'Key of root, who creates clients: random (`openssl rand -hex 24`), no colon, in production at least 16 characters.',
  ),
  viewerKey: setting('ROUTEMASTER_VIEWER_KEY', viewerKey.optional()).help(
    'Key of viewers, who see what root sees and change nothing; made like the root key. Without it there are no viewers.',
  ),
  redisUrl: setting('ROUTEMASTER_REDIS_URL', z.string(), 'redis://localhost:6379').help(
    'URL of Redis (`redis://`, `rediss://`, `unix:///path`, `redis+sentinel://`, `redis+cluster://`), or a variable that holds it; `REDIS_ENV_KEY` may name one.',
  ),
  redisPrefix: setting('ROUTEMASTER_REDIS_PREFIX', keyPrefix, '').help(
    'Prefix of all keys and channels, so that several buses can share a Redis.',
  ),
  maxOutboxBytes: setting('ROUTEMASTER_MAX_OUTBOX_BYTES', bytes, '67108864').help(
    'Bytes that may wait in a partition for another one. Beyond them publications that need it are refused with 503.',
  ),
  partitions: setting('ROUTEMASTER_PARTITIONS', whole(1, 256), '1').help(
    'Number of partitions, fixed when the bus is created: 1, or 16 on a Redis Cluster (docs/scale.md).',
  ),
  redisCa: setting('ROUTEMASTER_REDIS_CA', certificates.optional()).help(
    'PEM certificates, or a file with them, that `rediss://` trusts instead of the authorities that Node trusts.',
  ),
  redisSslVerify: setting('ROUTEMASTER_REDIS_SSL_VERIFY', yesNo, 'yes').help(
    'Whether `rediss://` checks the certificate of Redis; `no` for the self-signed ones of Heroku.',
  ),
};

const web = {
  host: setting('HOST', z.string().optional()).help(
    'Address on which web listens; by default all of the machine.',
  ),
  port: setting('PORT', whole(0, 65_535), '3000').help('Port on which web listens.'),
  webProcesses: setting('WEB_CONCURRENCY', whole(1, 256), '1').help(
    'Number of web processes, about one a core. If it is not set, `PUMA_WORKERS` counts.',
  ),
  forceSsl: setting('FORCE_SSL', yesNo.optional()).help(
    'Whether plain http (by X-Forwarded-Proto) is redirected to https; by default if `NODE_ENV` is `production`.',
  ),
  trustedProxies: setting('ROUTEMASTER_TRUSTED_PROXIES', whole(0, 16).optional()).help(
    'Number of routers in front, each of which adds an entry to X-Forwarded-*; by default 1 with `FORCE_SSL`, else 0.',
  ),
  digestMd5: setting('ROUTEMASTER_DIGEST_MD5', yesNo, 'yes').help(
    'Whether Digest may use MD5, for clients that know nothing better.',
  ),
  environment: setting('NODE_ENV', z.string(), 'development').help(
    'Tag `env` of figures. `production` sets `FORCE_SSL`, and refuses weak keys. If it is not set, `RACK_ENV` counts.',
  ),
  clients: setting('ROUTEMASTER_CLIENTS', tokens, '').help(
    'Tokens of clients without a secret, separated by commas: HTTP Basic with the token as user and any password.',
  ),
  compatibility: setting('ROUTEMASTER_COMPATIBILITY', compatibility.optional()).help(
    '`routemaster`: answer as the Ruby Routemaster did; `none`: do not. By default, a bus that took over its Redis does.',
  ),
  publishRate: setting('ROUTEMASTER_PUBLISH_RATE', whole(0, 1_000_000_000), '0').help(
    'Events a second that each client may publish, over all web processes; more is answered 429. 0: no limit.',
  ),
  publishBytes: setting('ROUTEMASTER_PUBLISH_BYTES', bytes, '0').help(
    'Bytes of bodies a second that each client may publish, over all web processes. 0: no limit.',
  ),
  publishBurstMs: setting('ROUTEMASTER_PUBLISH_BURST', seconds(1, 3600), '10').help(
    'Seconds for which a client that publishes less than it may saves up the rest.',
  ),
  callRate: setting('ROUTEMASTER_CALL_RATE', whole(0, 1_000_000), '50').help(
    'Calls a second, besides publishes, that a web process allows a client; each 16 KiB of answer cost one. 0: no limit.',
  ),
  strangerRate: setting('ROUTEMASTER_STRANGER_RATE', whole(0, 1_000_000), '100').help(
    'Requests a second without credentials, besides health checks, that a web process allows an address. 0: no limit.',
  ),
  maxTopics: setting('ROUTEMASTER_MAX_TOPICS', whole(1, 1_000_000), '10000').help('Maximum topics.'),
  maxClientTopics: setting('ROUTEMASTER_MAX_CLIENT_TOPICS', whole(1, 1_000_000), '1000').help(
    'Maximum topics that one client owns.',
  ),
  maxSubscribers: setting('ROUTEMASTER_MAX_SUBSCRIBERS', whole(1, 1_000_000), '10000').help(
    'Maximum subscribers.',
  ),
  maxSubscriptionTopics: setting('ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS', whole(1, 10_000), '1000').help(
    'Maximum topics of one subscriber.',
  ),
  maxJoins: setting('ROUTEMASTER_MAX_JOINS', whole(1, 100_000), '1000').help('Maximum joins.'),
  maxClientJoins: setting('ROUTEMASTER_MAX_CLIENT_JOINS', whole(1, 10_000), '100').help(
    'Maximum joins of one client.',
  ),
  maxTriggers: setting('ROUTEMASTER_MAX_TRIGGERS', whole(0, 1_000_000), '100000').help('Maximum triggers.'),
  maxClientTriggers: setting('ROUTEMASTER_MAX_CLIENT_TRIGGERS', whole(0, 10_000), '1000').help(
    'Maximum triggers of one client; their definitions take 5 % of the memory limit of Redis at most.',
  ),
  maxConnections: setting('ROUTEMASTER_MAX_CONNECTIONS', whole(1, 1_000_000), '10000').help(
    'Maximum connections of a web process. Further ones are closed at once.',
  ),
  requestTimeoutMs: setting('ROUTEMASTER_REQUEST_TIMEOUT', seconds(1, 3600), '30').help(
    'Seconds within which a request must arrive; its headers within 10.',
  ),
  maxEventDataBytes: setting('ROUTEMASTER_MAX_EVENT_DATA', bytes, '65536').help(
    'Maximum bytes of the data of an event, as JSON. The Ruby Routemaster allowed 64.',
  ),
  scalingThreshold: setting('ROUTEMASTER_SCALING_THRESHOLD', bytes, '100').help(
    'Number of deliveries due within the deadline from which on `/pulse/scaling` answers a second late.',
  ),
  scalingDeadlineMs: setting('ROUTEMASTER_SCALING_DEADLINE', whole(0, MAX_TIMER_MS), '1000').help(
    'Deadline of `/pulse/scaling`, in milliseconds.',
  ),
};

const delivering = {
  workerThreads: setting('ROUTEMASTER_WORKER_THREADS', whole(1, 1000), '2').help(
    'Threads of a worker process, about one a core. In compatibility mode, without the next one: deliveries under way.',
  ),
  workersPerThread: setting('ROUTEMASTER_WORKERS_PER_THREAD', whole(1, 1000), '32').help(
    'Maximum deliveries under way in each thread; a third more while all of them hang. At least 4 for each partition.',
  ),
  laneLimit: setting('ROUTEMASTER_LANE_LIMIT', whole(1, 1000), '16').help(
    'Maximum deliveries under way to a subscriber that asks for no number of its own, over all processes.',
  ),
  laneLimitMax: setting('ROUTEMASTER_LANE_LIMIT_MAX', whole(1, 1000), '64').help(
    'Maximum that a subscriber may ask for (`max_in_flight`). It gets a quarter of all workers at most.',
  ),
  maxAttempts: setting('ROUTEMASTER_MAX_ATTEMPTS', whole(1, 1_000_000), '1500').help(
    'Failed attempts after which a batch becomes a dead letter; a subscription may set its own `max_attempts`.',
  ),
  maxAgeMs: setting('ROUTEMASTER_MAX_AGE', seconds(1, 31_536_000), '86400').help(
    'Seconds after which a batch becomes a dead letter; a subscription may set its own `max_age`.',
  ),
  idempotencyWindowMs: setting('ROUTEMASTER_IDEMPOTENCY_WINDOW', seconds(1, 86_400), '600').help(
    'Seconds for which an Idempotency-Key is remembered, in 180 bytes of Redis. Its repeats store nothing.',
  ),
  maxIdempotencyKeys: setting('ROUTEMASTER_MAX_IDEMPOTENCY_KEYS', whole(1, 1_000_000_000), '100000').help(
    'Maximum Idempotency-Keys of a client in that time; fewer if they could take 5 % of the memory of Redis.',
  ),
  maxClientDelayed: setting('ROUTEMASTER_MAX_CLIENT_DELAYED', whole(0, 1_000_000_000), '100000').help(
    'Maximum events of a client that wait to be published later (`at`, `delay`).',
  ),
  clientDelayedShare: setting('ROUTEMASTER_CLIENT_DELAYED_SHARE', whole(0, 100), '5').help(
    'Per cent of the memory limit of Redis that the delayed events of a client may take.',
  ),
  maxJoinKeys: setting('ROUTEMASTER_MAX_JOIN_KEYS', whole(1, 10_000_000), '100000').help(
    'Maximum open keys of a join; with more, its oldest key expires early.',
  ),
  maxJoinBytes: setting('ROUTEMASTER_MAX_JOIN_BYTES', bytes, '67108864').help(
    'Bytes of Redis that the open keys of all joins of a client may take, each join an equal part; at most 5 % of the memory limit of Redis.',
  ),
  deliveryLog: setting('ROUTEMASTER_DELIVERY_LOG', whole(0, 10_000_000), '100000').help(
    'Batches that were taken or dropped of which a record is kept for a day, in about 150 bytes of Redis each. 0: none.',
  ),
  sweepIntervalMs: setting('ROUTEMASTER_SWEEP_INTERVAL', seconds(1, 86_400), '300').help(
    'Seconds between sweeps, which repair inconsistencies, such as a batch without a job. They should find none.',
  ),
  connectTimeoutMs: setting('ROUTEMASTER_CONNECT_TIMEOUT', seconds(0.1, 600), '2').help(
    'Seconds within which the connection of a delivery must be made.',
  ),
  keptConnections: setting('ROUTEMASTER_KEPT_CONNECTIONS', whole(1, 1_000_000), '1000').help(
    'Maximum idle connections to callbacks that a worker process keeps, for a few seconds each.',
  ),
  deliveryTimeoutMs: setting('ROUTEMASTER_TIMEOUT', seconds(0.1, 3600), '20').help(
    'Seconds that a whole delivery may take.',
  ),
  sslVerify: setting('ROUTEMASTER_SSL_VERIFY', yesNo, 'yes').help(
    'Whether callbacks must have valid TLS certificates.',
  ),
  callbackCa: setting('ROUTEMASTER_CALLBACK_CA', certificates.optional()).help(
    'PEM certificates, or a file with them, of your own authority that may also certify callbacks.',
  ),
  callbackAllow: setting('ROUTEMASTER_CALLBACK_ALLOW', list, '').help(
    'Private addresses and CIDRs that callbacks may reach, also by plain http, separated by commas: `10.0.0.0/8`.',
  ),
  callbackPorts: setting('ROUTEMASTER_CALLBACK_PORTS', list, '').help(
    'The only ports that callbacks may have, separated by commas, such as `443,8000-8999`; any by default.',
  ),
  egressProxy: setting('ROUTEMASTER_EGRESS_PROXY', proxy.optional()).help(
    'URL of a proxy (CONNECT) for all deliveries. It resolves host names, so it must refuse private addresses.',
  ),
  healRate: setting('ROUTEMASTER_HP_HEAL_RATE', whole(0, 100), '1').help(
    'Health points that a subscriber gains by an accepted batch.',
  ),
  /** The configuration has this value without the minus sign that it has in the environment. */
  damageRate: setting('ROUTEMASTER_HP_DAMAGE_RATE', whole(-100, 0).transform(Math.abs), '-2').help(
    'Health points that a subscriber loses by a failure, as a negative number.',
  ),
  maxBackoffMs: setting('MAX_BACKOFF_MS', whole(0, MAX_TIMER_MS), '60000').help(
    'Maximum pause before a failed delivery is tried again, in milliseconds.',
  ),
  leaseMs: setting('ROUTEMASTER_WORKER_LEASE', seconds(1, 3600), '30').help(
    'Seconds after which a worker that sends no heartbeat loses its delivery to another worker.',
  ),
  acquireTimeoutMs: setting('ROUTEMASTER_ACQUIRE_TIMEOUT', seconds(0.1, 3600), '10').help(
    'Maximum seconds between two questions of an idle worker for jobs.',
  ),
};

const storage = {
  minReplicas: setting('ROUTEMASTER_MIN_REPLICAS', whole(0, 10), '0').help(
    'Replicas of Redis that must have an event before its publish is answered 204; with fewer, 503 after a second.',
  ),
  redisMaxBytes: setting('ROUTEMASTER_REDIS_MAX_MEM', bytes, '0').help(
    'Bytes of Redis that the bus may fill. 0: the `maxmemory` of Redis.',
  ),
  redisMinFreeBytes: setting('ROUTEMASTER_REDIS_MIN_FREE', bytes, '10000000').help(
    'Bytes to keep free. With less, publishes are refused, and dead letters and batches are dropped.',
  ),
  dropPolicy: setting('ROUTEMASTER_DROP_POLICY', dropPolicy, 'fair').help(
    'What is dropped when memory runs short: `fair`, from the subscribers that hold most; `oldest`, the oldest of all.',
  ),
};

const records = {
  auditEntries: setting('ROUTEMASTER_AUDIT_LOG', whole(0, 1_000_000), '10000').help(
    'Number of newest entries that `GET /audit` shows, of 150 bytes each. 0: only the log has them.',
  ),
};

const figures = {
  metricService: setting('METRIC_COLLECTION_SERVICE', metricService, 'prometheus').help(
    'Where figures go: `print` (the log), `datadog` (DogStatsD over UDP) or `prometheus`; `GET /metrics` always works.',
  ),
  monitorIntervalMs: setting('ROUTEMASTER_MONITOR_INTERVAL', seconds(1, 86_400), '10').help(
    'Seconds between figures for `print` or `datadog`.',
  ),
  dogstatsdHost: setting('DD_AGENT_HOST', z.string(), '127.0.0.1').help('Host of the DogStatsD agent.'),
  dogstatsdPort: setting('DD_DOGSTATSD_PORT', whole(1, 65_535), '8125').help('Port of the DogStatsD agent.'),
  appName: setting('ROUTEMASTER_APP_NAME', z.string(), 'routemaster').help('Tag `app` of figures.'),
  historySubjects: setting('ROUTEMASTER_HISTORY_SUBJECTS', whole(0, 10_000), '1000').help(
    'Subscribers with a history of two days, 20 KB each, and topics, 14 KB each: those with the most events.',
  ),
  counterFlushIntervalMs: setting('ROUTEMASTER_COUNTER_FLUSH_INTERVAL', seconds(0.1, 3600), '5').help(
    'Seconds between flushes of the counters of a process to Redis.',
  ),
  logLevel: setting('ROUTEMASTER_LOG_LEVEL', logLevel, 'info').help(
    'Least level of log lines: `fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.',
  ),
};

export const SECTIONS = {
  Needed: needed,
  Web: web,
  Delivering: delivering,
  Storage: storage,
  Records: records,
  'Figures and logs': figures,
};

export const SETTINGS = { ...needed, ...web, ...delivering, ...storage, ...records, ...figures };

export const VARIABLES: readonly string[] = Object.values(SETTINGS).map(({ variable }) => variable);
