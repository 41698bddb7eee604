import { Redis, type RedisOptions } from 'ioredis';
import type { Config } from '../config.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';

/**
 * Maximum time that a command waits for its reply. Then the connection is closed, since callers would wait
 * for ever otherwise.
 */
const SILENCE_MS = 5000;
const MAX_PAUSE_MS = 2000;

// The constructor of ioredis does not accept a plain RedisOptions, because of the type of `replyMapping`.
type Options = Omit<RedisOptions, 'replyMapping'>;

/** Accepts `redis://`, `rediss://` (TLS) and `unix:///path/of/the.sock`. Throws BootError for other URLs. */
function address(url: string): Options & { url?: string } {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (cause) {
    throw new BootError(
      'ROUTEMASTER_REDIS_URL is not a URL: write redis://host:6379, rediss:// or unix:///path',
      { cause },
    );
  }
  if (parsed.protocol === 'unix:') return { path: decodeURIComponent(parsed.pathname) };
  if (parsed.protocol === 'redis:' || parsed.protocol === 'rediss:') return { url };
  throw new BootError(
    `ROUTEMASTER_REDIS_URL begins with ${parsed.protocol} where redis:, rediss: or unix: is meant`,
  );
}

export type RedisTls = Config['redisTls'];

const WELL_KNOWN: RedisTls = { ca: undefined, verify: true };

function open(url: string, log: Log, options: Options, tls: RedisTls): Redis {
  const { url: text, ...where } = address(url);
  const all: Options = {
    ...where,
    ...options,
    ...(url.startsWith('rediss:') && {
      tls: { rejectUnauthorized: tls.verify, ...(tls.ca !== undefined && { ca: tls.ca }) },
    }),
    // Without this, ioredis sends its name to Redis by a command that the ACL would have to permit.
    disableClientInfo: true,
    // A command whose reply was lost must not be sent again, since Redis may have applied it already.
    autoResendUnfulfilledCommands: false,
    retryStrategy: (times) =>
      Math.min(50 * 2 ** Math.min(times, 10), MAX_PAUSE_MS) * (0.5 + Math.random() / 2),
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
