import { Redis, type RedisOptions } from 'ioredis';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { addressOf, usesTls } from './redis_url.ts';

/**
 * Maximum time that a command waits for its reply. Then the connection is closed, since callers would wait
 * for ever otherwise.
 */
const SILENCE_MS = 5000;
const MAX_PAUSE_MS = 2000;
/**
 * The limits with sentinels. They are shorter, because a new master may be there before the failed one is
 * back, and a dead host never answers.
 */
const SENTINEL_MAX_PAUSE_MS = 500;
const SENTINEL_SILENCE_MS = 2000;
/** Minimum time between two warnings that Redis is a replica. */
const REPLICA_WARNING_MS = 60_000;

// The constructor of ioredis does not accept a plain RedisOptions, because of the type of `replyMapping`.
type Options = Omit<RedisOptions, 'replyMapping'>;

export type RedisTls = Config['redisTls'];

const WELL_KNOWN: RedisTls = { ca: undefined, verify: true };

function open(url: string, log: Log, options: Options, tls: RedisTls): Redis {
  const { url: text, ...where } = addressOf(url);
  const behindSentinels = where.sentinels !== undefined;
  const maxPauseMs = behindSentinels ? SENTINEL_MAX_PAUSE_MS : MAX_PAUSE_MS;
  const pause = (times: number) =>
    Math.min(50 * 2 ** Math.min(times, 10), maxPauseMs) * (0.5 + Math.random() / 2);
  const encryption = usesTls(url) && {
    rejectUnauthorized: tls.verify,
    ...(tls.ca !== undefined && { ca: tls.ca }),
  };
  const all: Options = {
    ...where,
    ...options,
    ...(encryption && { tls: encryption }),
    // Without this option, ioredis sends its name to Redis by a command that the ACL would have to permit.
    disableClientInfo: true,
    // A command whose reply was lost must not be sent again, since Redis may have applied it already.
    autoResendUnfulfilledCommands: false,
    retryStrategy: pause,
    reconnectOnError: reconnectFromReplica(log),
    ...(behindSentinels && {
      ...(encryption && { enableTLSForSentinelMode: true, sentinelTLS: encryption }),
      sentinelRetryStrategy: pause,
      sentinelCommandTimeout: SENTINEL_SILENCE_MS,
      connectTimeout: SENTINEL_SILENCE_MS,
    }),
  };
  const redis = text === undefined ? new Redis(all) : new Redis(text, all);
  let away = false;
  redis.on('error', (error: Error) => {
    // This error only means that this process closed the connection before it was ready.
    if (error.message.startsWith("Stream isn't writeable")) return;
    if (!away) log.warn({ reason: error.message }, 'Redis cannot be reached; trying again');
    away = true;
  });
  redis.on('ready', () => {
    if (away) log.info('Redis is back');
    away = false;
  });
  return redis;
}

/**
 * Returns a function that decides whether to connect again after an error of Redis. It does if the error
 * says that this Redis, once the master, is a replica now. The sentinels, or the name of the host, then
 * lead to the new master. The command fails all the same.
 */
function reconnectFromReplica(log: Log): (error: Error) => boolean {
  let warnedAtMs = Number.NEGATIVE_INFINITY;
  return ({ message }) => {
    if (!message.startsWith('READONLY')) return false;
    if (clock.monotonicMs() - warnedAtMs > REPLICA_WARNING_MS) {
      warnedAtMs = clock.monotonicMs();
      log.warn('Redis is a replica, which takes no writes; connecting again, to find the master');
    }
    return true;
  };
}

/** Opens a connection for commands. They fail at once while Redis is unavailable. It reconnects by itself. */
export function connect(url: string, log: Log, tls = WELL_KNOWN): Redis {
  // `maxRetriesPerRequest` must not be null: in ioredis 6, commands that are pending when the connection is
  // cut would then never settle.
  const options = { enableOfflineQueue: false, socketTimeout: SILENCE_MS, maxRetriesPerRequest: 0 };
  return open(url, log, options, tls);
}

/**
 * Opens a connection that only listens to channels. If it is cut, it reconnects and subscribes again by
 * itself.
 */
export function connectListener(url: string, log: Log, tls = WELL_KNOWN): Redis {
  return open(url, log, { socketTimeout: SILENCE_MS, maxRetriesPerRequest: null }, tls);
}
