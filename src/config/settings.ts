import { z } from 'zod';
import { callbacks, deliveries, workers } from './delivery_settings.ts';
import { flow, limits, rates } from './limit_settings.ts';
import { secretSetting, setting } from './setting.ts';
import {
  bytes,
  certificates,
  compatibility,
  dropPolicy,
  keyPrefix,
  keys,
  logLevel,
  MAX_TIMER_MS,
  metricService,
  seconds,
  tokens,
  whole,
  yesNo,
} from './values.ts';

const credentials = {
  rootKeys: secretSetting('ROUTEMASTER_ROOT_KEY', keys).help(
    'Key of root, who creates clients: random (`openssl rand -hex 24`), no colon, in production at least 16 characters. ' +
      'Two, with a space between, while one replaces the other.',
  ),
  viewerKeys: secretSetting('ROUTEMASTER_VIEWER_KEY', keys.optional()).help(
    'Key of viewers, who see what root sees and change nothing; made like the root key. Without it there are no viewers.',
  ),
  clients: secretSetting('ROUTEMASTER_CLIENTS', tokens, '').help(
    'Tokens of clients without a secret, separated by commas: HTTP Basic with the token as user and any password.',
  ),
  digestMd5: setting('ROUTEMASTER_DIGEST_MD5', yesNo, 'yes').help(
    'Whether Digest may use MD5, for clients that know nothing better.',
  ),
};

const redis = {
  redisUrl: secretSetting('ROUTEMASTER_REDIS_URL', z.string(), 'redis://localhost:6379').help(
    'URL of Redis (`redis://`, `rediss://`, `unix:///path`, `redis+sentinel://`, `redis+cluster://`), ' +
      'or a variable that holds it; `REDIS_ENV_KEY` may name one.',
  ),
  redisPrefix: setting('ROUTEMASTER_REDIS_PREFIX', keyPrefix, '').help(
    'Prefix of all keys and channels, so that several buses can share a Redis.',
  ),
  redisCa: secretSetting('ROUTEMASTER_REDIS_CA', certificates.optional()).help(
    'PEM certificates, or a file with them, that `rediss://` trusts instead of the authorities that Node trusts.',
  ),
  redisSslVerify: setting('ROUTEMASTER_REDIS_SSL_VERIFY', yesNo, 'yes').help(
    'Whether `rediss://` checks the certificate of Redis; `no` for the self-signed ones of Heroku.',
  ),
  requireData: setting('ROUTEMASTER_REQUIRE_DATA', yesNo, 'no').help(
    'Whether Redis must have the data of the bus: without it processes wait for a backup, and begin no new bus.',
  ),
  partitions: setting('ROUTEMASTER_PARTITIONS', whole(1, 256), '1').help(
    'Number of partitions, fixed when the bus is created: 1, or 16 on a Redis Cluster (docs/scale.md).',
  ),
  minReplicas: setting('ROUTEMASTER_MIN_REPLICAS', whole(0, 10), '0').help(
    'Replicas of Redis that must have an event before its publish is answered 204; with fewer, 503 within a few seconds.',
  ),
  maxOutboxBytes: setting('ROUTEMASTER_MAX_OUTBOX_BYTES', bytes, '67108864').help(
    'Bytes that may wait in a partition for another one. Beyond them publishes for it get 503, and triggers and joins wait.',
  ),
  redisMaxBytes: setting('ROUTEMASTER_REDIS_MAX_MEM', bytes, '0').help(
    'Bytes of Redis that the bus may fill. 0: the `maxmemory` of Redis.',
  ),
  redisMinFreeBytes: setting('ROUTEMASTER_REDIS_MIN_FREE', bytes, '10000000').help(
    'Bytes to keep free. With less, publishes are refused, and dead letters and batches are dropped.',
  ),
  dropPolicy: setting('ROUTEMASTER_DROP_POLICY', dropPolicy, 'fair').help(
    'What is dropped when memory runs short: `fair`, from the clients that hold most; `oldest`, the oldest of all.',
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
  environment: setting('NODE_ENV', z.string(), 'development').help(
    'Tag `env` of figures. `production` sets `FORCE_SSL`, and refuses weak keys. If it is not set, `RACK_ENV` counts.',
  ),
  compatibility: setting('ROUTEMASTER_COMPATIBILITY', compatibility.optional()).help(
    '`routemaster`: answer as the Ruby Routemaster did; `none`: do not. By default, a bus that took over its Redis does.',
  ),
  maxConnections: setting('ROUTEMASTER_MAX_CONNECTIONS', whole(1, 1_000_000), '10000').help(
    'Maximum connections of a web process. Further ones are closed at once.',
  ),
  requestTimeoutMs: setting('ROUTEMASTER_REQUEST_TIMEOUT', seconds(1, 3600), '30').help(
    'Seconds within which a request must arrive; its headers within 10.',
  ),
  scalingThreshold: setting('ROUTEMASTER_SCALING_THRESHOLD', bytes, '100').help(
    'Number of deliveries due within the deadline from which on `/pulse/scaling` answers a second late.',
  ),
  scalingDeadlineMs: setting('ROUTEMASTER_SCALING_DEADLINE', whole(0, MAX_TIMER_MS), '1000').help(
    'Deadline of `/pulse/scaling`, in milliseconds.',
  ),
};

const figures = {
  auditEntries: setting('ROUTEMASTER_AUDIT_LOG', whole(0, 1_000_000), '10000').help(
    'Number of newest entries that `GET /audit` shows, of 150 bytes each. 0: only the log has them.',
  ),
  deliveryLog: setting('ROUTEMASTER_DELIVERY_LOG', whole(0, 10_000_000), '100000').help(
    'Batches that were taken or dropped of which a record is kept for a day, in about 150 bytes of Redis each. 0: none.',
  ),
  historySubjects: setting('ROUTEMASTER_HISTORY_SUBJECTS', whole(0, 10_000), '1000').help(
    'Subscribers with a history of two days, 20 KB each, and topics, 14 KB each: those with the most events.',
  ),
  metricService: setting('METRIC_COLLECTION_SERVICE', metricService, 'prometheus').help(
    'Where figures go: `print` (the log), `datadog` (DogStatsD over UDP) or `prometheus`; `GET /metrics` always works.',
  ),
  monitorIntervalMs: setting('ROUTEMASTER_MONITOR_INTERVAL', seconds(1, 86_400), '10').help(
    'Seconds between figures for `print` or `datadog`.',
  ),
  dogstatsdHost: setting('DD_AGENT_HOST', z.string(), '127.0.0.1').help('Host of the DogStatsD agent.'),
  dogstatsdPort: setting('DD_DOGSTATSD_PORT', whole(1, 65_535), '8125').help('Port of the DogStatsD agent.'),
  appName: setting('ROUTEMASTER_APP_NAME', z.string(), 'routemaster').help('Tag `app` of figures.'),
  counterFlushIntervalMs: setting('ROUTEMASTER_COUNTER_FLUSH_INTERVAL', seconds(0.1, 3600), '5').help(
    'Seconds between flushes of the counters of a process to Redis.',
  ),
  logLevel: setting('ROUTEMASTER_LOG_LEVEL', logLevel, 'info').help(
    'Least level of log lines: `fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.',
  ),
};

/** All settings by subject, as the documents show them. */
export const SECTIONS = {
  'Keys and clients': credentials,
  'Redis and its memory': redis,
  Web: web,
  Rates: rates,
  'Limits of clients and of the bus': limits,
  'Delayed events, triggers and joins': flow,
  Workers: workers,
  'Deliveries and retries': deliveries,
  Callbacks: callbacks,
  'Records, figures and logs': figures,
};

export const SETTINGS = {
  ...credentials,
  ...redis,
  ...web,
  ...rates,
  ...limits,
  ...flow,
  ...workers,
  ...deliveries,
  ...callbacks,
  ...figures,
};

/** Variables that only `bin/start` reads. The documents show them with the settings, but `Config` lacks them. */
export const OF_BIN_START = {
  dataDir: {
    variable: 'ROUTEMASTER_DATA_DIR',
    unset: 'data',
    help: 'Directory of the private Redis, the root key and made clients, closed to other users. The bus itself does not read it.',
  },
};

export const VARIABLES: readonly string[] = Object.values(SETTINGS).map(({ variable }) => variable);
