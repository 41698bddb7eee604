import { delimiter, join } from 'node:path';
import { compileCache, root } from './command.ts';

/** The keys of root and of viewers, on every bus under test. */
export const ROOT_KEY = 'key-of-root-in-the-tests';
export const VIEWER_KEY = 'key-of-viewers-in-the-tests';

/** Settings of a bus under test, which starts fast and repeats failed deliveries fast. */
const ENV = {
  PORT: '0',
  ROUTEMASTER_ROOT_KEY: ROOT_KEY,
  ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.1',
  ROUTEMASTER_WORKER_THREADS: '1',
  ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '0.1',
  ROUTEMASTER_SWEEP_INTERVAL: '1',
  MAX_BACKOFF_MS: '200',
};

/** Gives the settings of ENV that limit a bus their default values again, for tests that measure or attack it. */
export const DEFAULT_LIMITS = {
  ROUTEMASTER_WORKER_THREADS: '2',
  ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '5',
  ROUTEMASTER_SWEEP_INTERVAL: '300',
  MAX_BACKOFF_MS: '60000',
};

/**
 * Returns the environment of a process of the bus. From the environment of the tests it takes only the places
 * of commands, of the home directory and of compiled files.
 */
export function busEnvironment(env: Record<string, string>): NodeJS.ProcessEnv {
  return {
    PATH: [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter),
    HOME: process.env.HOME,
    ...compileCache,
    ...ENV,
    ...env,
  };
}
