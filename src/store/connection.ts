import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { backoffMs } from '../backoff.ts';
import { atMostEvery } from '../clock.ts';
import type { Config } from '../config.ts';
import { BootError, connectionFailure, isRefusal, messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Connection } from './master.ts';
import { RedisCluster } from './redis_cluster.ts';
import { addressOf, usesTls } from './redis_url.ts';

/** Maximum time that a command waits for its reply before the connection is closed. */
const SILENCE_MS = 5000;
const MAX_WAIT_MS = 2000;
/**
 * Maximum wait before connecting again to a Redis with replicas (a cluster, or behind sentinels). It is short, because
 * a new master may soon be ready.
 */
const REPLICATED_MAX_WAIT_MS = 500;
/**
 * Maximum time to connect to a Redis with replicas, or to ask a sentinel. It is short, because a dead host never
 * answers.
 */
const REPLICATED_SILENCE_MS = 2000;
const REPLICA_WARNING_MS = 60_000;

// `replyMapping` is left out, because the types of ioredis contradict each other: RedisOptions permits undefined for
// it, but the constructors do not.
type Options = Omit<RedisOptions, 'replyMapping'>;

export type RedisTls = Config['redisTls'];

const WELL_KNOWN: RedisTls = { ca: undefined, verify: true };

const waitUpTo = (maxMs: number) => (times: number) => backoffMs(times, maxMs);

function commonOptions(url: string, log: Log, tls: RedisTls): Options {
  const encryption = { rejectUnauthorized: tls.verify, ...(tls.ca !== undefined && { ca: tls.ca }) };
  return {
    ...(usesTls(url) && { tls: encryption }),
    // Client info is the name and version of ioredis. To send it, the ACL would have to permit CLIENT SETINFO.
    disableClientInfo: true,
    // A command whose reply was lost must not be sent again, because Redis may have applied the command already.
    autoResendUnfulfilledCommands: false,
    // With 0, pending commands fail when the connection is lost. With null, they would never end in ioredis 6.
    maxRetriesPerRequest: 0,
    reconnectOnError: reconnectFromReplica(log),
    socketTimeout: SILENCE_MS,
  };
}

/**
 * Returns why a connection to Redis fails. Also says so if TLS may be the cause: the URL has the wrong scheme (`redis:`
 * for a Redis with TLS, or the reverse), or the certificate is not trusted.
 */
export function reasonOf(error: NodeJS.ErrnoException, url: string): string {
  return messageOf(error) + adviceOnTls(error, url);
}

function adviceOnTls({ code = '' }: NodeJS.ErrnoException, url: string): string {
  if (!usesTls(url)) return code === 'ECONNRESET' ? '; does this Redis want TLS? Then write rediss:' : '';
  if (code === 'ETIMEDOUT') return '; does this Redis speak TLS, as rediss: says?';
  return /CERT|VERIFY/.test(code) ? '; see ROUTEMASTER_REDIS_CA and ROUTEMASTER_REDIS_SSL_VERIFY' : '';
}

/** Like `connect`, but connects only to a single Redis. Throws BootError for the URL of a cluster. */
export function connectOne(url: string, log: Log, tls = WELL_KNOWN): Redis {
  const { url: text, nodes, ...where } = addressOf(url);
  if (nodes) throw new BootError('ROUTEMASTER_REDIS_URL is that of a cluster where one Redis is needed.');
  const behindSentinels = where.sentinels !== undefined;
  const wait = waitUpTo(behindSentinels ? REPLICATED_MAX_WAIT_MS : MAX_WAIT_MS);
  const common = commonOptions(url, log, tls);
  const all: Options = {
    ...where,
    ...common,
    enableOfflineQueue: false,
    retryStrategy: wait,
    ...(behindSentinels && {
      ...(common.tls && { enableTLSForSentinelMode: true, sentinelTLS: common.tls }),
      sentinelRetryStrategy: wait,
      sentinelCommandTimeout: REPLICATED_SILENCE_MS,
      connectTimeout: REPLICATED_SILENCE_MS,
    }),
  };
  const redis = text === undefined ? new Redis(all) : new Redis(text, all);
  let told: string | undefined;
  let wasReady = false;
  let failedSentinels = 0;
  redis.on('sentinelError', () => failedSentinels++);
  redis.on('error', (error: Error & { command?: { name: string } }) => {
    // Each time it connects, ioredis goes on to the next sentinel. After the last sentinel, it reports this error, even
    // if the sentinels have answered, and begins again with the first.
    const isLastSentinel = error.message.startsWith('All sentinels are unreachable');
    if (isLastSentinel && failedSentinels < (where.sentinels?.length ?? 0)) return;
    if (!isLastSentinel) failedSentinels = 0;
    // If Redis refuses SELECT, ioredis would go on in database 0, which may belong to another bus. So
    // `disconnect(true)` closes the connection, and lets ioredis connect and send SELECT again.
    if (error.command?.name === 'select') redis.disconnect(true);
    // ioredis reports this error if the process itself closes a connection that is not ready yet. This is no failure,
    // so nothing is logged.
    if (error.message.startsWith("Stream isn't writeable")) return;
    const failure = connectionFailure(error);
    const reason = wasReady ? messageOf(error) : reasonOf(error, url);
    if (isRefusal(error)) log.error({ away: 'Redis', reason: error.message }, failure);
    else if (failure !== told) log.warn({ reason }, failure);
    told = failure;
  });
  redis.on('ready', () => {
    if (told !== undefined) log.info('Redis is back');
    told = undefined;
    wasReady = true;
    failedSentinels = 0;
  });
  return redis;
}

/**
 * Returns a function that tells ioredis to connect again if an error says that this Redis is now a replica. The
 * sentinels or the DNS name should then lead to the new master. The command that got the error still fails.
 */
function reconnectFromReplica(log: Log): (error: Error) => boolean {
  const line = 'Redis is a replica, which takes no writes; connecting again, to find the master';
  const warn = atMostEvery(REPLICA_WARNING_MS, () => log.warn(line), Number.NEGATIVE_INFINITY);
  return ({ message }) => {
    const isReplica = message.startsWith('READONLY');
    if (isReplica) warn();
    return isReplica;
  };
}

/**
 * Connects to Redis, or to the masters of a cluster. If a connection is lost, a new one is made, and commands fail
 * until then.
 */
export function connect(url: string, log: Log, tls = WELL_KNOWN): Connection {
  const { nodes, ...credentials } = addressOf(url);
  if (!nodes) return connectOne(url, log, tls);
  const common = commonOptions(url, log, tls);
  const cluster = new Cluster(nodes, {
    redisOptions: { ...credentials, ...common, connectTimeout: REPLICATED_SILENCE_MS },
    clusterRetryStrategy: waitUpTo(REPLICATED_MAX_WAIT_MS),
    // With a ready check, ioredis would drop its connection to a cluster that is not complete, for example because a
    // master is down. Without the check, the process works with the masters that are up.
    enableReadyCheck: false,
    // ioredis connects to the nodes by their host names, not their addresses, because their certificates are for the
    // names.
    dnsLookup: (name, callback) => callback(null, name),
  });
  return new RedisCluster(cluster, log);
}
