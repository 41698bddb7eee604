import type { RedisOptions } from 'ioredis';
import { BootError } from '../errors.ts';

/** Where Redis is: options of ioredis, the nodes of a cluster, or a URL that ioredis itself can read. */
type Address = Pick<
  RedisOptions,
  'path' | 'sentinels' | 'name' | 'username' | 'password' | 'db' | 'sentinelUsername' | 'sentinelPassword'
> & { url?: string; nodes?: Host[] };

interface Host {
  host: string;
  port: number;
}

const EXAMPLES =
  'redis://host:6379, rediss:// (TLS), unix:///path, redis+sentinel://host:26379,host:26379/name ' +
  'or redis+cluster://host:6379,host:6379';
const AT_PORT = 'redis://user:password@host:6379/0';
const AT_SOCKET = 'unix:///run/redis.sock';
const SENTINEL_PORT = 26_379;
const NODE_PORT = 6379;
/**
 * Matches URLs with several hosts, which `URL` cannot parse:
 * `redis+sentinel://user:password@host:port,host:port/name?options`, and `redis+cluster://` without name and options.
 */
const SEVERAL_HOSTS =
  /^rediss?\+(?:sentinel|cluster):\/\/(?:(?<user>[^@/]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<name>[^?#]*))?(?:\?(?<options>[^#]*))?$/i;
const OPTIONS = ['db', 'sentinel_user', 'sentinel_password'];

/**
 * Reads the URL of Redis: `redis://`, `unix:///path/of/the.sock`, `redis+sentinel://` or `redis+cluster://`, with
 * `rediss` for TLS. Throws BootError for any other URL, without the URL's secret parts.
 */
export function addressOf(url: string): Address {
  if (/^rediss?\+sentinel:/i.test(url)) return behindSentinels(url);
  if (/^rediss?\+cluster:/i.test(url)) return inCluster(url);
  // `URL` takes / ? or # for the end of the host, even inside a password: it reads `redis://user:12/34@host` as host
  // `user`, port 12.
  if (/^rediss?:\/\/.*[/?#].*@/i.test(url))
    refusing(AT_PORT)('has / ? or # before an @; in a password they must be percent-encoded: %2F, %3F, %23');
  // `URL` cannot parse `unix://user@/path`, which has a user but no host. Without this check, the error would only say
  // that the text is no URL.
  if (/^unix:\/\/[^/]*@/i.test(url)) refuseBesideSocket();
  // `new URL` is not used, because its error has the whole text, including the password.
  const parsed = URL.parse(url);
  if (parsed === null) throw new BootError(`ROUTEMASTER_REDIS_URL is not a URL: write ${EXAMPLES}`);
  if (parsed.protocol === 'unix:') return atSocket(parsed);
  if (parsed.protocol === 'redis:' || parsed.protocol === 'rediss:') return atPort(url, parsed);
  throw new BootError(
    `ROUTEMASTER_REDIS_URL begins with ${parsed.protocol} where redis:, rediss: or unix: is meant, or redis+sentinel: or redis+cluster:`,
  );
}

/** True if the URL asks for encrypted connections to Redis and to the sentinels. */
export function usesTls(url: string): boolean {
  return /^rediss(?:\+sentinel|\+cluster)?:/i.test(url);
}

/**
 * Returns the address in a `redis://` URL. Refuses a URL on which ioredis would fail. Also refuses a database that is
 * not a number, because ioredis would use database 0 instead.
 */
function atPort(url: string, { pathname, searchParams, username, password }: URL): Address {
  const refuse = refusing(AT_PORT);
  if (!/^rediss?:\/\//i.test(url)) refuse('needs `//` behind the colon');
  if (!isDatabase(pathname.replace(/^\/|\/$/g, '') || '0') || !isDatabase(searchParams.get('db') ?? '0'))
    refuse('has a database that is not a number');
  decoded(username, refuse);
  decoded(password, refuse);
  return { url };
}

function atSocket({ pathname, host, search, hash }: URL): Address {
  if (host + search + hash !== '') refuseBesideSocket();
  return { path: decoded(pathname, refusing(AT_SOCKET)) };
}

function refuseBesideSocket(): never {
  return refusing(AT_SOCKET)(
    'has something besides the path of a socket; with unix: the bus uses database 0 and no password',
  );
}

const isDatabase = (text: string) => /^\d{1,6}$/.test(text);

function inCluster(url: string): Address {
  const refuse = refusing('redis+cluster://user:password@one:6379,two:6379');
  const { user, hosts = '', name = '', options } = SEVERAL_HOSTS.exec(url)?.groups ?? {};
  if (hosts === '')
    refuse('needs nodes of the cluster behind `//`, separated by commas; a password must be percent-encoded');
  const nodes = hosts.split(',').map((text) => hostIn(text, NODE_PORT) ?? refuse(noHost('node', NODE_PORT)));
  if (name !== '' || options !== undefined)
    refuse('has something behind its nodes; a cluster has no numbered databases, and there are no options');
  return { nodes, ...credentials(user, refuse) };
}

function behindSentinels(url: string): Address {
  const refuse = refusing('redis+sentinel://user:password@one:26379,two:26379/mymaster');
  const { user, hosts = '', name = '', options = '' } = SEVERAL_HOSTS.exec(url)?.groups ?? {};
  if (hosts === '')
    refuse('needs the sentinels behind `//`, separated by commas; a password must be percent-encoded');
  const sentinels = hosts
    .split(',')
    .map((text) => hostIn(text, SENTINEL_PORT) ?? refuse(noHost('sentinel', SENTINEL_PORT)));
  if (!/^[^/]+$/.test(name))
    refuse('needs one name behind the sentinels: that of `sentinel monitor` in their configuration');
  const given = new URLSearchParams(options);
  const unknown = [...given.keys()].find((key) => !OPTIONS.includes(key));
  if (unknown !== undefined) refuse(`has the option ${unknown}; there are ${OPTIONS.join(', ')}`);
  const db = given.get('db') ?? '0';
  if (!isDatabase(db)) refuse('has a db that is not a number');
  return {
    sentinels,
    name: decoded(name, refuse),
    ...credentials(user, refuse),
    db: Number(db),
    ...(given.has('sentinel_user') && { sentinelUsername: given.get('sentinel_user') as string }),
    ...(given.has('sentinel_password') && { sentinelPassword: given.get('sentinel_password') as string }),
  };
}

type Refuse = (why: string) => never;

function refusing(example: string): Refuse {
  return (why) => {
    throw new BootError(`ROUTEMASTER_REDIS_URL ${why}. An example: ${example}`);
  };
}

/** Reads `host`, `host:port` or `[IPv6]:port`. Returns undefined for any other text. */
function hostIn(text: string, defaultPort: number): Host | undefined {
  const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port ?? 1) > 65_535 || Number(port ?? 1) === 0) return undefined;
  return { host, port: Number(port ?? defaultPort) };
}

function noHost(what: string, port: number): string {
  return `has a ${what} that is no host:port; write host:${port},host:${port}, and [::1]:${port} for IPv6`;
}

function credentials(text: string | undefined, refuse: Refuse): Pick<Address, 'username' | 'password'> {
  if (text === undefined || text === '') return {};
  const colon = text.indexOf(':');
  if (colon < 0) refuse('has a user without a password: write user:password@, or :password@');
  const username = decoded(text.slice(0, colon), refuse);
  return { ...(username !== '' && { username }), password: decoded(text.slice(colon + 1), refuse) };
}

function decoded(text: string, refuse: Refuse): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return refuse('has a % that begins no percent-encoded character; write %25 for %');
  }
}
