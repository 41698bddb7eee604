import { Redis, type RedisOptions } from 'ioredis';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';

/** Cuts a connection that has not replied for this long; otherwise callers would wait for ever. */
const SILENCE_MS = 5000;
const MAX_PAUSE_MS = 2000;

// ioredis types its reply mapping so that a plain RedisOptions does not pass; we leave it alone.
type Options = Omit<RedisOptions, 'replyMapping'>;

/** `redis://`, `rediss://` (TLS), or `unix:///path/of/the.sock`. */
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

/** How the certificate of a Redis behind `rediss://` is checked. */
export interface RedisTls {
  /** Certificates in PEM, in place of those that Node trusts. */
  ca: string | undefined;
  /** False: any certificate will do. */
  verify: boolean;
}

const WELL_KNOWN: RedisTls = { ca: undefined, verify: true };

function open(url: string, log: Log, options: Options, tls: RedisTls): Redis {
  const { url: text, ...where } = address(url);
  const all: Options = {
    ...where,
    ...options,
    ...(url.startsWith('rediss:') && {
      tls: { rejectUnauthorized: tls.verify, ...(tls.ca !== undefined && { ca: tls.ca }) },
    }),
    // ioredis would send its name to Redis, which is of no use and one command more to permit.
    disableClientInfo: true,
    // A write whose reply was lost must not be sent again blindly: it may have been applied.
    autoResendUnfulfilledCommands: false,
    retryStrategy: (times) =>
      Math.min(50 * 2 ** Math.min(times, 10), MAX_PAUSE_MS) * (0.5 + Math.random() / 2),
  };
  const redis = text === undefined ? new Redis(all) : new Redis(text, all);
  let away = false;
  redis.on('error', (error: Error) => {
    // Closing a connection that is still being made fails its ready check. Redis is not at fault.
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

/** A connection for commands. They fail at once while Redis is away. It reconnects by itself, for ever. */
export function connect(url: string, log: Log, tls = WELL_KNOWN): Redis {
  // No retries. With null, ioredis 6 drops the pending commands when a connection is cut, and they never settle.
  const options = { enableOfflineQueue: false, socketTimeout: SILENCE_MS, maxRetriesPerRequest: 0 };
  return open(url, log, options, tls);
}

/** A connection for channels only. It subscribes again by itself after it was cut. */
export function connectListener(url: string, log: Log, tls = WELL_KNOWN): Redis {
  return open(url, log, { socketTimeout: SILENCE_MS, maxRetriesPerRequest: null }, tls);
}
