import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { OF_BIN_START } from '../../src/config/settings.ts';
import { BootError } from '../../src/errors.ts';
import { secret } from '../../src/ids.ts';
import { takeLock } from '../process_lock.ts';
import { freePort, isFreePort } from '../processes/ports.ts';
import { makeDirectory } from './data_directory.ts';
import { HTTPS_PORT, RECEIVER_PORT } from './sample_receiver.ts';

const LOOPBACK = '127.0.0.1';
const WEB_PORT = 3000;
/** Number of ports after a taken one that are tried before any other, so that the next start finds the same port. */
const NEAR_PORTS = 10;
const DEMO_PREFIX = 'demo:';

export interface Settings {
  demo: boolean;
  /** True if the bus runs on a private cluster. */
  cluster: boolean;
  /**
   * The directory of the private Redis, and of the files with the clients that bin/start makes. The demo has a
   * directory of its own, which keeps its clients and topics off the bus that bin/start runs without `--demo`. But if
   * the environment has both a URL of Redis and a prefix, the demo uses that bus and the common directory. A cluster
   * has a directory of its own too, which is emptied at each start.
   */
  dataDir: string;
  /** Address on which web listens: by default only on this machine. */
  host: string;
  rootKey: string;
  rootKeyFrom: string;
  /** The Redis to use; undefined for a private one. */
  redisUrl: string | undefined;
  /**
   * The prefix of all keys. If the environment names a Redis but no prefix, the demo has its own prefix, so its bus is
   * apart from the one there.
   */
  redisPrefix: string;
}

/** Returns the directory in which bin/start keeps the root key and everything else. */
export function dataDirectory(root: string): string {
  const { variable, unset } = OF_BIN_START.dataDir;
  return resolve(root, process.env[variable] || unset);
}

/**
 * Returns the settings, with defaults for what the environment leaves open. A new root key is kept in `directory`,
 * for all starts. Throws BootError if something must be changed first.
 */
export function readSettings(directory: string, args: string[], env = process.env): Settings {
  const keyFile = join(directory, 'root_key');
  const cluster = args.includes('--cluster');
  if (cluster && env.ROUTEMASTER_REDIS_URL)
    throw new BootError('--cluster starts a cluster of its own, but ROUTEMASTER_REDIS_URL is set');
  const demo = args.includes('--demo');
  const redisUrl = env.ROUTEMASTER_REDIS_URL || undefined;
  const ownPrefix = env.ROUTEMASTER_REDIS_PREFIX || '';
  const isApart = demo && (redisUrl === undefined || ownPrefix === '');
  const dataDir = join(directory, cluster ? 'cluster' : isApart ? 'demo' : '');
  if (cluster) emptyAlone(dataDir);
  makeDirectory(dataDir);
  return {
    demo: cluster || demo,
    cluster,
    dataDir,
    host: env.HOST || LOOPBACK,
    // While the root key is replaced, ROUTEMASTER_ROOT_KEY has two keys. The first one is used.
    rootKey: env.ROUTEMASTER_ROOT_KEY?.split(' ')[0] || keptKey(keyFile),
    rootKeyFrom: env.ROUTEMASTER_ROOT_KEY ? 'ROUTEMASTER_ROOT_KEY' : keyFile,
    redisUrl,
    redisPrefix: isApart && redisUrl !== undefined ? DEMO_PREFIX : ownPrefix,
  };
}

/**
 * Empties the directory of a cluster, and keeps it for this process until it ends. Throws BootError if a living
 * bin/start has it, because the password and the client that it told its user to read are there.
 */
function emptyAlone(dataDir: string): void {
  const path = `${dataDir}.lock`;
  const release = takeLock(path);
  if (!release)
    throw new BootError(
      `bin/start --cluster already runs with the data in ${dataDir}: stop that one first, or delete ${path}`,
    );
  process.once('exit', release);
  rmSync(dataDir, { recursive: true, force: true });
}

/**
 * Returns the port that PORT names. Throws BootError if PORT is not a port, or if the port is taken. Without PORT,
 * returns 3000, or a free port near it if 3000 is taken.
 */
export async function choosePort(): Promise<number> {
  const { PORT } = process.env;
  return PORT ? givenPort(PORT) : portNear(WEB_PORT);
}

/** Returns the URL at which a client on this machine reaches the bus. */
export function urlOf({ host }: Settings, port: number): string {
  const reachable = /^(0\.0\.0\.0|::)$/.test(host) ? LOOPBACK : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

/** Returns true if the bus listens where other machines can reach it. */
export function isReachedByOthers({ host }: Settings): boolean {
  return !/^(127(\.\d+){3}|::1|localhost)$/.test(host);
}

/** Returns the environment of web and worker: the environment of bin/start, with defaults for trying the bus out. */
export function childEnvironment(
  settings: Settings,
  { root, port, redisUrl, demoPort }: { root: string; port: number; redisUrl: string; demoPort?: number },
): NodeJS.ProcessEnv {
  const { env } = process;
  return {
    ...env,
    ...callbacks(demoPort),
    // No router ends TLS here, but NODE_ENV=production would expect one.
    FORCE_SSL: env.FORCE_SSL || 'no',
    PATH: [join(root, 'node_modules', '.bin'), env.PATH].join(delimiter),
    HOST: settings.host,
    PORT: String(port),
    ROUTEMASTER_ROOT_KEY: env.ROUTEMASTER_ROOT_KEY || settings.rootKey,
    ROUTEMASTER_REDIS_URL: redisUrl,
    ROUTEMASTER_REDIS_PREFIX: settings.redisPrefix,
    ...(settings.cluster && { ROUTEMASTER_PARTITIONS: '16', ROUTEMASTER_MIN_REPLICAS: '1' }),
  };
}

/**
 * Allows callbacks only to the ports of the sample receivers and of https, unless the environment allows others:
 * clients of the bus could reach whatever else listens on this machine. The receiver of the demo is allowed whatever
 * the environment says.
 */
function callbacks(demoPort?: number): NodeJS.ProcessEnv {
  const { ROUTEMASTER_CALLBACK_ALLOW: allow, ROUTEMASTER_CALLBACK_PORTS: ports } = process.env;
  const [demoHosts, demoPorts] = demoPort === undefined ? [[], []] : [[LOOPBACK], [demoPort]];
  const samples = [HTTPS_PORT, RECEIVER_PORT, ...demoPorts].join(',');
  return {
    ROUTEMASTER_CALLBACK_ALLOW: allow ? [allow, ...demoHosts].join(',') : LOOPBACK,
    ROUTEMASTER_CALLBACK_PORTS: ports ? [ports, ...demoPorts].join(',') : allow ? '' : samples,
  };
}

function keptKey(file: string): string {
  if (!existsSync(file)) writeFileSync(file, `${secret()}\n`);
  const key = readFileSync(file, 'utf8').trim();
  if (key === '') throw new BootError(`${file} is empty; delete it to get a new key`);
  return key;
}

async function givenPort(text: string): Promise<number> {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new BootError(`PORT is ${text}, which is not a port`);
  if (port === 0) return freePort();
  const free = await isFreePort(port).catch((error: Error) => {
    throw new BootError(`${error.message}: set PORT to another`);
  });
  if (!free) {
    throw new BootError(`port ${port} is taken: stop what listens there, or set PORT to another`);
  }
  return port;
}

/** Returns the port if it is free; otherwise the first free one of the ten after it, or any free one. */
export async function portNear(port: number): Promise<number> {
  if (await isFreePort(port)) return port;
  const other = (await freeAfter(port)) ?? (await freePort());
  console.error(`start: port ${port} is taken; using ${other} (set PORT to choose)`);
  return other;
}

async function freeAfter(port: number): Promise<number | undefined> {
  for (let next = port + 1; next <= port + NEAR_PORTS; next++) if (await isFreePort(next)) return next;
  return undefined;
}
