import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The exit status of a command that was used wrongly. */
const WRONG_USAGE = 2;

/**
 * Ends the process with the text that says how to use a command of bin/. `problem` says what the user did wrong;
 * undefined if the user asked for the text. The texts are in src/, because the Docker image lacks bin/.
 */
export function endWithUsage(command: 'move' | 'takeover', problem?: string): never {
  const text = readFileSync(join(import.meta.dirname, '..', `${command}.txt`), 'utf8');
  if (problem === undefined) process.stdout.write(text);
  else process.stderr.write(`${command}: ${problem}\n\n${text}`);
  process.exit(problem === undefined ? 0 : WRONG_USAGE);
}

/**
 * Returns the environment with which a command of bin/ reads the configuration. `url` is the URL of Redis. The
 * configuration requires a root key, although the commands do not use it, so a placeholder is set if there is no key.
 * NODE_ENV and RACK_ENV are left out, because production refuses the placeholder.
 */
export function environmentFor(url: string | undefined): NodeJS.ProcessEnv {
  const { REDIS_ENV_KEY, ...env } = process.env;
  const redis = url === undefined ? { REDIS_ENV_KEY } : { ROUTEMASTER_REDIS_URL: url };
  return { ROUTEMASTER_ROOT_KEY: 'not-needed', ...env, NODE_ENV: undefined, RACK_ENV: undefined, ...redis };
}
