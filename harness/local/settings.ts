import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { freePort, isFreePort } from '../processes/ports.ts';

export interface Settings {
  demo: boolean;
  dataDir: string;
  port: number;
  rootKey: string;
  rootKeyFrom: string;
  /** The Redis to use; undefined for a private one. */
  redisUrl: string | undefined;
}

export class SettingsError extends Error {}

/** Reads `.env` (the environment has precedence), and settles what the environment leaves open. */
export async function readSettings(root: string, args: string[]): Promise<Settings> {
  const envFile = join(root, '.env');
  if (existsSync(envFile)) process.loadEnvFile(envFile);
  const { env } = process;
  const dataDir = resolve(root, env.ROUTEMASTER_DATA_DIR || 'data');
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const keyFile = join(dataDir, 'root_key');
  return {
    demo: args.includes('--demo'),
    dataDir,
    port: env.PORT ? await givenPort(env.PORT) : await portNear(3000),
    rootKey: env.ROUTEMASTER_ROOT_KEY || keptKey(keyFile),
    rootKeyFrom: env.ROUTEMASTER_ROOT_KEY ? 'ROUTEMASTER_ROOT_KEY' : keyFile,
    redisUrl: env.ROUTEMASTER_REDIS_URL || undefined,
  };
}

/** Returns the environment of web and worker: defaults for bin/start, then the environment of bin/start itself. */
export function childEnvironment(settings: Settings, root: string, redisUrl: string): NodeJS.ProcessEnv {
  return {
    // For trying out: the bus refuses callbacks to this machine unless told otherwise.
    ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8,::1/128',
    // There is no router that ends TLS in front; NODE_ENV=production alone would ask for one.
    FORCE_SSL: 'no',
    ...process.env,
    PATH: [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter),
    PORT: String(settings.port),
    ROUTEMASTER_ROOT_KEY: settings.rootKey,
    ROUTEMASTER_REDIS_URL: redisUrl,
    REDIS_ENV_KEY: '', // it would name another Redis
  };
}

function keptKey(file: string): string {
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 });
  return readFileSync(file, 'utf8').trim();
}

async function givenPort(text: string): Promise<number> {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new SettingsError(`PORT is ${text}, which is not a port`);
  if (port === 0) return freePort();
  const free = await isFreePort(port).catch((error: Error) => {
    throw new SettingsError(`${error.message}: set PORT to another`);
  });
  if (!free) {
    throw new SettingsError(`port ${port} is taken: stop what listens there, or set PORT to another`);
  }
  return port;
}

async function portNear(port: number): Promise<number> {
  if (await isFreePort(port)) return port;
  const other = await freePort();
  console.error(`start: port ${port} is taken; using ${other} (set PORT to choose)`);
  return other;
}
