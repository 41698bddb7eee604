/**
 * For each variable, the name that it had in the Ruby Routemaster. If the variable is not set, the bus reads the
 * variable with the former name.
 */
const FORMER_NAMES: Readonly<Record<string, string>> = {
  NODE_ENV: 'RACK_ENV',
  WEB_CONCURRENCY: 'PUMA_WORKERS',
};

/** Returns the variables that the bus reads in this environment although `SETTINGS` lacks them. */
export function otherNamesRead(env: NodeJS.ProcessEnv): string[] {
  const named = env.REDIS_ENV_KEY ? [env.REDIS_ENV_KEY] : [];
  return [...Object.values(FORMER_NAMES), 'REDIS_ENV_KEY', ...named];
}

/** Variables of the Ruby Routemaster that have no effect here. Each text says what there is instead. */
const WITHOUT_USE: Readonly<Record<string, string>> = {
  DATADOG_API_KEY: 'figures go to a Datadog agent (DD_AGENT_HOST), which has a key of its own',
  DATADOG_APP_KEY: 'figures go to a Datadog agent (DD_AGENT_HOST), which has a key of its own',
  EXCEPTION_SERVICE: 'errors are lines of the log with level 50',
  EXCEPTION_SERVICE_URL: 'errors are lines of the log with level 50',
  NEW_RELIC_LICENSE_KEY: 'figures are at GET /metrics',
  PUMA_THREADS: 'a web process serves all its requests on one thread',
  PUMA_TIMEOUT: 'a web process that hangs is the business of whatever runs it; GET /health tells',
  PUMA_BOOT_TIMEOUT: 'a web process that hangs is the business of whatever runs it; GET /health tells',
  ROUTEMASTER_LOG_FILE: 'the log goes to stdout',
};

/**
 * Returns the name of the variable that gives a setting its value: `variable` or, if only its former name in the Ruby
 * Routemaster is set, the former name. An empty variable counts as unset.
 */
export function variableInUse(variable: string, env: NodeJS.ProcessEnv): string {
  const former = FORMER_NAMES[variable];
  return former && env[former] && !env[variable] ? former : variable;
}

/** Returns the URL of Redis in the variable that `REDIS_ENV_KEY` names. This URL overrides ROUTEMASTER_REDIS_URL. */
export function redisUrlByKey(env: NodeJS.ProcessEnv): string | undefined {
  return env[env.REDIS_ENV_KEY ?? ''] || undefined;
}

/** The root key in the `.env` that is published with the Ruby Routemaster, so everybody knows it. */
const PUBLISHED_ROOT_KEY = 'CHANGE-ME';

/**
 * Returns warnings about values meant for the Ruby Routemaster:
 * - a variable that has no effect here;
 * - a former name of a variable, such as RACK_ENV, whose value is not that of the present name (NODE_ENV);
 * - a REDIS_ENV_KEY that names a variable which is not set;
 * - the root key in the published `.env` of the Ruby Routemaster.
 */
export function rubyWarnings(env: NodeJS.ProcessEnv): string[] {
  const warnings = Object.entries(WITHOUT_USE)
    .filter(([name]) => env[name])
    .map(([name, instead]) => `${name} of the Ruby Routemaster is set, and has no effect: ${instead}`);
  for (const [name, former] of Object.entries(FORMER_NAMES)) {
    if (env[name] && env[former] && env[name] !== env[former])
      warnings.push(`${former} is set, and has no effect: ${name} says something else`);
  }
  if (env.REDIS_ENV_KEY && !redisUrlByKey(env))
    warnings.push('REDIS_ENV_KEY names a variable that is not set: ROUTEMASTER_REDIS_URL counts');
  if (env.ROUTEMASTER_ROOT_KEY === PUBLISHED_ROOT_KEY)
    warnings.push('ROUTEMASTER_ROOT_KEY is the published placeholder, which production refuses');
  return warnings;
}

/** True for a variable of the Ruby Routemaster that has no effect here. */
export function isUnusedRubyVariable(variable: string): boolean {
  return variable in WITHOUT_USE;
}

const OTHER_MEANING: Readonly<Record<string, string>> = {
  ROUTEMASTER_MAX_EVENT_DATA:
    'counts the bytes of `data` as JSON, and not as MessagePack: mostly more of them',
  ROUTEMASTER_WORKER_THREADS:
    'means deliveries under way in compatibility mode, as before; out of it threads, of 32 deliveries each',
};

/**
 * Returns notes for operators who move from the Ruby Routemaster: one for each variable that is set and has another
 * meaning here. An unset METRIC_COLLECTION_SERVICE gets a note too: the bus then pushes no figures.
 */
export function otherMeanings(env: NodeJS.ProcessEnv): string[] {
  const told = Object.entries(OTHER_MEANING).flatMap(([name, meaning]) =>
    env[name] ? `${name} ${meaning}` : [],
  );
  if (!env.METRIC_COLLECTION_SERVICE)
    told.push('METRIC_COLLECTION_SERVICE is not set: figures are at GET /metrics, and nothing is pushed');
  return told;
}
