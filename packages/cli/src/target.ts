import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Failure, type Target, UsageError } from './command.ts';
import { type BusEntry, readRtmrc } from './rtmrc.ts';

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

interface TargetOptions {
  bus: string | undefined;
  token: string | undefined;
  secret: string | undefined;
  env: NodeJS.ProcessEnv;
  folder: string;
}

/**
 * Returns the URL and the credentials of the bus that `--bus` names, or else ROUTEMASTER_BUS. The token comes from
 * `--token`, or else from the entry `@NAME` in `.rtmrc`, or else from the environment. The token may have its secret
 * after a colon: `TOKEN:SECRET`.
 */
export function targetOf({ bus: named, token, secret, env, folder }: TargetOptions): Target {
  const bus = named ?? (env.ROUTEMASTER_BUS || undefined);
  if (bus === undefined)
    throw new UsageError('No bus given: --bus DOMAIN, --bus @NAME of .rtmrc, or ROUTEMASTER_BUS');
  const entry = bus.startsWith('@') ? entryOf(bus.slice(1), env, folder) : undefined;
  const given = token ?? entry?.token ?? env.ROUTEMASTER_TOKEN;
  if (given === undefined)
    throw new UsageError('No token given: --token TOKEN, ROUTEMASTER_TOKEN, or --bus @NAME of .rtmrc');
  const [name = '', ...rest] = given.split(':');
  if (name === '') throw new UsageError('The token is empty; is its variable set in the environment?');
  const carried = rest.length > 0 ? rest.join(':') : undefined;
  // A secret in `.rtmrc` is used only with the token of the same entry, and ROUTEMASTER_SECRET only with
  // ROUTEMASTER_TOKEN. Otherwise the secret of one bus could be sent to another bus.
  const beside = token !== undefined ? undefined : entry?.token !== undefined ? entry.secret : undefined;
  const ofEnv = given === env.ROUTEMASTER_TOKEN ? env.ROUTEMASTER_SECRET : undefined;
  const from = named === undefined ? 'ROUTEMASTER_BUS' : '--bus';
  return {
    url: urlOf(entry?.bus ?? bus, from),
    token: name,
    secret: secret ?? carried ?? beside ?? ofEnv,
    from: entry ? `${bus} in .rtmrc` : from,
    meant: () => (isEntry(bus, env, folder) ? `@${bus}` : undefined),
  };
}

function entryOf(name: string, env: NodeJS.ProcessEnv, folder: string): BusEntry {
  const path = pathFor(env, folder);
  if (path === undefined)
    throw new Failure(
      'no_configuration',
      `there is no .rtmrc, here or in the home directory, to say what @${name} is`,
    );
  const entries = entriesIn(path);
  const entry = entries.get(name);
  if (entry?.bus === undefined) {
    const names = [...entries].filter(([, { bus }]) => bus !== undefined).map(([each]) => `@${each}`);
    const has = names.length === 0 ? 'no bus at all' : names.join(', ');
    throw new Failure(
      'no_configuration',
      `No configuration for bus '${name}' found in .rtmrc, which has ${has}`,
    );
  }
  return entry;
}

/** Returns the path of the `.rtmrc` that is used, or undefined if there is none. */
function pathFor(env: NodeJS.ProcessEnv, folder: string): string | undefined {
  return [folder, env.HOME ?? homedir()].map((each) => join(each, '.rtmrc')).find(existsSync);
}

function entriesIn(path: string): Map<string, BusEntry> {
  return readRtmrc(readFileSync(path, 'utf8'));
}

/** Returns true if `.rtmrc` has a bus of this name. Only a hint needs this, so a file that cannot be read has none. */
function isEntry(name: string, env: NodeJS.ProcessEnv, folder: string): boolean {
  try {
    const path = pathFor(env, folder);
    return path !== undefined && entriesIn(path).get(name)?.bus !== undefined;
  } catch {
    return false;
  }
}

/**
 * Returns an http URL for a bus on this machine, and https for any other, so that no token crosses a network
 * unencrypted. `from` is where the user named the bus.
 */
function urlOf(bus: string, from: string): string {
  const isUrl = bus.includes('://');
  const text = isUrl ? bus : `http://${bus}`;
  if (!URL.canParse(text) || !/^https?:\/\//i.test(text))
    throw new UsageError(`${from} must be a domain, or @NAME of .rtmrc, not ${bus}`);
  const url = new URL(text);
  // A path in the URL is kept, because a proxy may serve the bus under a path. But the address of a console page, which
  // a user may have copied from the browser, is refused.
  const page = /\/console(?:\/.*)?$/.exec(url.pathname)?.[0] ?? '';
  const extra = page + url.search + url.hash;
  if (extra !== '') throw new UsageError(`${from} must be the address of the bus alone: leave out ${extra}`);
  if (LOOPBACK.test(url.hostname)) return text;
  if (isUrl && url.protocol === 'http:')
    throw new UsageError(
      `plain http is only for a bus on this machine, not ${url.host}: write https:// before the host`,
    );
  return text.replace(/^http:/, 'https:');
}
