import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { refuseShortTokens } from '../authentication/short_tokens.ts';
import { variableInUse } from '../config/ruby_variables.ts';
import { readConfig } from '../config.ts';
import { BootError } from '../errors.ts';
import type { EnvironmentNotes } from '../maintenance/rehearsal_report.ts';

const WRONG_USAGE = 2;

/**
 * Shows how to use a command of bin/, and ends the process. `problem` says what the user did wrong; undefined if the
 * user asked for this text. The texts are in src/, because the Docker image lacks bin/.
 */
export function endWithUsage(command: 'move' | 'takeover', problem?: string): never {
  const text = readFileSync(join(import.meta.dirname, '..', `${command}.txt`), 'utf8');
  if (problem === undefined) process.stdout.write(text);
  else process.stderr.write(`${command}: ${problem}\n\n${text}`);
  process.exit(problem === undefined ? 0 : WRONG_USAGE);
}

/**
 * Returns the environment from which a command of bin/ reads the configuration. `url` is the URL of Redis. The
 * configuration demands a root key, but the commands need none, so a placeholder replaces a missing one. In production
 * the placeholder would be refused as too weak, so NODE_ENV and RACK_ENV are left out.
 */
export function environmentFor(url: string | undefined): NodeJS.ProcessEnv {
  const env = environmentOfBus(url);
  const key = env.ROUTEMASTER_ROOT_KEY || 'not-needed';
  return { ...env, ROUTEMASTER_ROOT_KEY: key, NODE_ENV: undefined, RACK_ENV: undefined };
}

/**
 * Returns the environment of this process. If `url` is given, the bus uses the Redis at `url`: ROUTEMASTER_REDIS_URL is
 * set, and REDIS_ENV_KEY is left out, because it may name a variable with another URL.
 */
function environmentOfBus(url: string | undefined): NodeJS.ProcessEnv {
  const { REDIS_ENV_KEY, ...env } = process.env;
  return { ...env, ...(url === undefined ? { REDIS_ENV_KEY } : { ROUTEMASTER_REDIS_URL: url }) };
}

/**
 * Checks the environment variables as a web process does when it starts. Outside production, a missing root key
 * probably means that the operator's shell has none of the bus's variables. Then only the missing key is reported, and
 * nothing else is checked.
 */
export function checkEnvironment(url: string | undefined): EnvironmentNotes {
  const env = environmentOfBus(url);
  if (!env.ROUTEMASTER_ROOT_KEY && env[variableInUse('NODE_ENV', env)] !== 'production')
    return {
      toDo: [],
      toKnow: [
        'ROUTEMASTER_ROOT_KEY is not set here: the bus does not start without it, nor in production with a weak one',
      ],
    };
  try {
    const config = readConfig(env);
    if (config.compatibility === 'none') refuseShortTokens(config);
    return { toDo: [], toKnow: [] };
  } catch (error) {
    if (!(error instanceof BootError)) throw error;
    const reason = error.message.replaceAll(/\n */g, ' ');
    return { toDo: [`the bus would not start with this environment: ${reason}`], toKnow: [] };
  }
}
