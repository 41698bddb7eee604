import type { RedisOptions } from 'ioredis';
import { BootError } from '../errors.ts';

/** Where Redis is: options of ioredis, or a URL that ioredis reads. */
export type Address = Pick<
  RedisOptions,
  'path' | 'sentinels' | 'name' | 'username' | 'password' | 'db' | 'sentinelUsername' | 'sentinelPassword'
> & { url?: string };

const EXAMPLES =
  'redis://host:6379, rediss:// (TLS), unix:///path or redis+sentinel://host:26379,host:26379/name';
const SENTINEL_PORT = 26_379;
/**
 * Matches `redis+sentinel://user:password@host:port,host:port/name?options`, which `URL` cannot parse, as
 * it has several hosts.
 */
const SENTINELS =
  /^rediss?\+sentinel:\/\/(?:(?<user>[^@/]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<name>[^?#]*))?(?:\?(?<options>[^#]*))?$/i;
const OPTIONS = ['db', 'sentinel_user', 'sentinel_password'];

/**
 * Accepts `redis://`, `rediss://` (TLS), `unix:///path/of/the.sock`, `redis+sentinel://` and `rediss+sentinel://`. Throws
 * BootError for other URLs. Its messages contain no part of the URL that may be secret.
 */
export function addressOf(url: string): Address {
  if (/^rediss?\+sentinel:/i.test(url)) return behindSentinels(url);
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (cause) {
    throw new BootError(`ROUTEMASTER_REDIS_URL is not a URL: write ${EXAMPLES}`, { cause });
  }
  if (parsed.protocol === 'unix:') return { path: decodeURIComponent(parsed.pathname) };
  if (parsed.protocol === 'redis:' || parsed.protocol === 'rediss:') return { url };
  throw new BootError(
    `ROUTEMASTER_REDIS_URL begins with ${parsed.protocol} where redis:, rediss: or unix: is meant, or redis+sentinel:`,
  );
}

/** True if the connections to Redis, and to the sentinels, are to be encrypted. */
export function usesTls(url: string): boolean {
  return /^rediss(?:\+sentinel)?:/i.test(url);
}

function behindSentinels(url: string): Address {
  const { user, hosts = '', name = '', options = '' } = SENTINELS.exec(url)?.groups ?? {};
  if (hosts === '')
    refuse('needs the sentinels behind `//`, separated by commas; a password must be percent-encoded');
  const sentinels = hosts.split(',').map(sentinelOf);
  if (!/^[^/]+$/.test(name))
    refuse('needs one name behind the sentinels: that of `sentinel monitor` in their configuration');
  const given = new URLSearchParams(options);
  const unknown = [...given.keys()].find((key) => !OPTIONS.includes(key));
  if (unknown !== undefined) refuse(`has the option ${unknown}; there are ${OPTIONS.join(', ')}`);
  const db = given.get('db') ?? '0';
  if (!/^\d{1,6}$/.test(db)) refuse('has a db that is not a number');
  return {
    sentinels,
    name: decoded(name),
    ...credentials(user),
    db: Number(db),
    ...(given.has('sentinel_user') && { sentinelUsername: given.get('sentinel_user') as string }),
    ...(given.has('sentinel_password') && { sentinelPassword: given.get('sentinel_password') as string }),
  };
}

function sentinelOf(text: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port ?? 1) > 65_535 || Number(port ?? 1) === 0)
    return refuse(
      'has a sentinel that is no host:port; write host:26379,host:26379, and [::1]:26379 for IPv6',
    );
  return { host, port: Number(port ?? SENTINEL_PORT) };
}

function credentials(text: string | undefined): Pick<Address, 'username' | 'password'> {
  if (text === undefined || text === '') return {};
  const colon = text.indexOf(':');
  if (colon < 0) refuse('has a user without a password: write user:password@, or :password@');
  const username = decoded(text.slice(0, colon));
  return { ...(username !== '' && { username }), password: decoded(text.slice(colon + 1)) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return refuse('has a % that begins no percent-encoded character; write %25 for %');
  }
}

function refuse(why: string): never {
  throw new BootError(
    `ROUTEMASTER_REDIS_URL ${why}. An example: redis+sentinel://user:password@one:26379,two:26379/mymaster`,
  );
}
