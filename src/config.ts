import type { z } from 'zod';
import {
  isUnusedRubyVariable,
  otherNamesRead,
  redisUrlByKey,
  rubyWarnings,
  variableInUse,
} from './config/ruby_variables.ts';
import { OF_BIN_START, SETTINGS, VARIABLES } from './config/settings.ts';
import { nearestWord } from './edit_distance.ts';
import { BootError } from './errors.ts';
import { escapeOf } from './json.ts';
import type { Compatibility } from './routing/dialect.ts';

/**
 * Matches root and viewer keys that people copied from an example, such as `your-key`. Does not match `a-key`, because
 * one random Base64 key in a thousand begins with `a-`, `a_`, `A-` or `A_`, and would be refused.
 */
const PLACEHOLDER =
  /change.?me|placeholder|^(your|my|the|some|example|sample|test|demo|default|root|admin|replace|insert)[-_.]|^(secret|password)/i;
/** Minimum length of keys, and of tokens that are credentials, in production. Shorter ones can be guessed. */
const MIN_CREDENTIAL_LENGTH = 16;
const PREFIX = 'ROUTEMASTER_';
/** A name is taken for a misspelt setting if it has at most one mistake for every eight letters of the setting. */
const LETTERS_PER_MISTAKE = 8;
const MAX_SHOWN = 50;
/** Matches a value up to its last `@`. If the value is a URL in the wrong variable, this part may have a password. */
const CREDENTIALS = /^(\w+:\/\/)?.*@/s;
/** Matches characters that a terminal does not show, or that change what it shows around them. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

type Settings = { [Name in keyof typeof SETTINGS]: z.output<(typeof SETTINGS)[Name]['type']> };

/**
 * The settings, checked and completed. Times are in milliseconds and sizes in bytes. The settings are plain data,
 * because each thread gets a copy.
 */
export type Config = Readonly<ReturnType<typeof complete>>;

/**
 * Reads and checks the environment. An empty variable counts as unset. Throws a BootError that names every wrong
 * variable with its rule, and with its value unless the value may be secret.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const settings: Record<string, unknown> = {};
  const wrong: string[] = [];
  for (const [name, { variable, type, unset, isSecret }] of Object.entries(SETTINGS)) {
    const used = variableInUse(variable, env);
    const value = env[used] || unset;
    const { data, error } = type.safeParse(value);
    settings[name] = data;
    const shown = value === undefined || isSecret ? '' : ` is ${quoted(value)}:`;
    for (const { message } of error?.issues ?? []) wrong.push(`  ${used}${shown} ${message}`);
  }
  if (wrong.length > 0) throw new BootError(`The environment is not right:\n${wrong.join('\n')}`);
  return Object.freeze(complete(settings as Settings, env));
}

/** Returns a value in quotes, shortened, and without what may be a password. Invisible characters are escaped. */
function quoted(value: string): string {
  const shown = [...value.replace(CREDENTIALS, '$1…@')];
  const text = JSON.stringify(
    shown.length > MAX_SHOWN ? `${shown.slice(0, MAX_SHOWN).join('')}…` : shown.join(''),
  );
  // A character above U+FFFF has two UTF-16 units. JSON has an escape for each unit, and none for the whole character.
  return text.replace(UNSEEN, (match) => match.replace(/./gs, escapeOf));
}

function complete({ redisCa, redisSslVerify, ...settings }: Settings, env: NodeJS.ProcessEnv) {
  const production = settings.environment === 'production';
  const forceSsl = settings.forceSsl ?? production;
  const trustedProxies = settings.trustedProxies ?? Number(forceSsl);
  const { rootKeys, viewerKeys = [] } = settings;
  if (production) {
    for (const key of rootKeys) refuseWeak('ROUTEMASTER_ROOT_KEY', key);
    for (const key of viewerKeys) refuseWeak('ROUTEMASTER_VIEWER_KEY', key);
  }
  for (const key of viewerKeys) refuseOtherRole(key, settings);
  if (forceSsl && trustedProxies === 0) {
    throw new BootError(
      'FORCE_SSL is on and ROUTEMASTER_TRUSTED_PROXIES is 0: nobody could say that a request came by https. ' +
        'Set it to the number of routers in front, or FORCE_SSL to no.',
    );
  }
  const redisUrl = namedVariable(redisUrlByKey(env) ?? settings.redisUrl, env);
  const redisTls = { ca: redisCa, verify: redisSslVerify };
  const minTokenLength = production ? MIN_CREDENTIAL_LENGTH : 1;
  const threadsAlone = Boolean(env.ROUTEMASTER_WORKER_THREADS && !env.ROUTEMASTER_WORKERS_PER_THREAD);
  return { ...settings, forceSsl, trustedProxies, redisUrl, redisTls, minTokenLength, threadsAlone };
}

/**
 * In a compatibility mode, makes ROUTEMASTER_WORKER_THREADS the number of concurrent deliveries, because a thread of
 * the Ruby Routemaster delivered one batch at a time. Changes nothing if ROUTEMASTER_WORKERS_PER_THREAD is set too.
 */
export function configIn(compatibility: Compatibility, config: Config): Config {
  if (compatibility === 'none' || !config.threadsAlone) return config;
  const deliveries = config.workerThreads;
  const workerThreads = Math.ceil(deliveries / config.workersPerThread);
  return Object.freeze({ ...config, workerThreads, workersPerThread: Math.ceil(deliveries / workerThreads) });
}

/**
 * Throws if a viewer key is also a root key or a token of ROUTEMASTER_CLIENTS. Otherwise viewers could act as root
 * or as this client.
 */
function refuseOtherRole(
  viewerKey: string,
  { rootKeys, clients }: Pick<Settings, 'rootKeys' | 'clients'>,
): void {
  const other = rootKeys.includes(viewerKey)
    ? 'ROUTEMASTER_ROOT_KEY'
    : clients.includes(viewerKey)
      ? 'a token of ROUTEMASTER_CLIENTS'
      : undefined;
  if (other !== undefined)
    throw new BootError(`ROUTEMASTER_VIEWER_KEY equals ${other}: set it to another key, for viewers alone.`);
}

function refuseWeak(variable: string, key: string): void {
  const weak = PLACEHOLDER.test(key)
    ? 'looks like a placeholder'
    : key.length < MIN_CREDENTIAL_LENGTH
      ? `has fewer than ${MIN_CREDENTIAL_LENGTH} characters`
      : undefined;
  if (weak !== undefined)
    throw new BootError(
      `${variable} ${weak}, which is not for production: set it to what \`openssl rand -hex 24\` prints.`,
    );
}

/**
 * Returns the URL of Redis. `value` is either this URL, or the name of another variable that contains it: Heroku
 * add-ons choose the names of the variables that they set.
 */
function namedVariable(value: string, env: NodeJS.ProcessEnv): string {
  if (!/^[A-Z][A-Z0-9_]*$/.test(value)) return value;
  const named = env[value];
  if (!named) throw new BootError(`ROUTEMASTER_REDIS_URL names ${value}, which is not set.`);
  return named;
}

/** Returns warnings for operators about the variables that are set. */
export function environmentWarnings(env: NodeJS.ProcessEnv = process.env): string[] {
  return [...unknownVariables(env), ...unknownEnvironment(env), ...rubyWarnings(env)];
}

/**
 * The usual values of NODE_ENV. The bus warns of any other value: somebody who sets `prod` may mean `production`, but
 * does not get its checks.
 */
const ENVIRONMENTS = ['production', 'development', 'test'];

function unknownEnvironment(env: NodeJS.ProcessEnv): string[] {
  const variable = variableInUse('NODE_ENV', env);
  const value = env[variable];
  if (!value || ENVIRONMENTS.includes(value)) return [];
  return [`${variable} is ${quoted(value)}: only "production" forces https and refuses weak keys`];
}

/**
 * Variables of `rtm` (packages/cli) and of Datadog's clients. They may be set in the same environment, so the bus does
 * not warn that they are unknown.
 */
const OF_OTHERS = ['ROUTEMASTER_BUS', 'ROUTEMASTER_TOKEN', 'ROUTEMASTER_SECRET', 'DD_DOGSTATSD_HOST'];

/**
 * Warns of each unknown `ROUTEMASTER_` variable, and suggests a setting with a similar name. Warns also of a name such
 * as `ROUTMASTER_ROOT_KEY` or `WEB_CONCURENCY`, if it is a misspelling of a setting that is not set.
 */
function unknownVariables(env: NodeJS.ProcessEnv): string[] {
  const ofBinStart = Object.values(OF_BIN_START).map(({ variable }) => variable);
  const known = [...VARIABLES, ...ofBinStart, ...otherNamesRead(env)];
  const unset = known.filter((name) => !env[name]);
  const warnings: string[] = [];
  for (const name of Object.keys(env)) {
    if (known.includes(name) || OF_OTHERS.includes(name) || isUnusedRubyVariable(name)) continue;
    const isForBus = name.startsWith(PREFIX);
    const meant =
      known.find((each) => `${PREFIX}${each}` === name) ??
      nearestWord(name, isForBus ? known : unset, LETTERS_PER_MISTAKE);
    if (!isForBus && meant === undefined) continue;
    const advice = meant === undefined ? '' : `; did you mean ${meant}?`;
    warnings.push(`${name} is set, but the bus has no such setting${advice}`);
  }
  return warnings;
}
