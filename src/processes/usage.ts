import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const WRONG_USAGE = 2;

/**
 * Shows how to use a command of bin/, and ends the process. `problem` says what the user did wrong; undefined if the
 * user asked for help. The help of each command is in a file in src/, because the Docker image lacks bin/.
 */
export function endWithUsage(command: 'move' | 'takeover', problem?: string): never {
  const text = readFileSync(join(import.meta.dirname, '..', `${command}.txt`), 'utf8');
  if (problem === undefined) process.stdout.write(text);
  else process.stderr.write(`${command}: ${problem}\n\n${text}`);
  process.exit(problem === undefined ? 0 : WRONG_USAGE);
}

/**
 * Returns the environment from which a command of bin/ reads the configuration. `url` is the URL of Redis. The commands
 * need no root key, but the configuration demands one, so a placeholder replaces a missing key. NODE_ENV and RACK_ENV
 * are left out, because in production the placeholder would be refused as too weak.
 */
export function environmentFor(url: string | undefined, env = process.env): NodeJS.ProcessEnv {
  const ofBus = environmentOfBus(url, env);
  const key = ofBus.ROUTEMASTER_ROOT_KEY || 'not-needed';
  return { ...ofBus, ROUTEMASTER_ROOT_KEY: key, NODE_ENV: undefined, RACK_ENV: undefined };
}

/**
 * Returns the environment with the Redis at `url`, if it is given: ROUTEMASTER_REDIS_URL is set, and REDIS_ENV_KEY is
 * left out, because it may name a variable with another URL.
 */
export function environmentOfBus(url: string | undefined, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { REDIS_ENV_KEY, ...others } = env;
  return { ...others, ...(url === undefined ? { REDIS_ENV_KEY } : { ROUTEMASTER_REDIS_URL: url }) };
}
