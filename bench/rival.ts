import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BusProcess } from '../harness/processes/bus_process.ts';
import type { PrivateRedis } from '../harness/redis/private_redis.ts';
import type { Case } from './part.ts';
import type { Figures } from './result.ts';
import type { Stage } from './stage.ts';
import { Store } from './store.ts';

/** The folder of a package of its own, so that users of the bus need not install its rivals. */
const DIR = join(import.meta.dirname, 'rivals');
const LOCK = join(DIR, 'package-lock.json');
/** A copy of the lock file that was installed last. */
const STAMP = join(DIR, 'node_modules', '.package-lock.installed.json');
const CREDENTIALS = { token: 'billing', secret: 'Uakgb_J5m9g-0JDMbcJqLJ_Uakgb_J5m' };

function rivalsAreInstalled(): boolean {
  return existsSync(STAMP) && readFileSync(STAMP, 'utf8') === readFileSync(LOCK, 'utf8');
}

export function installRivals(): void {
  if (rivalsAreInstalled()) return;
  process.stderr.write('rivals: installs what bench/rivals/package-lock.json names … ');
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['ci', ...quiet], { cwd: DIR, stdio: ['ignore', 'ignore', 'inherit'] });
  copyFileSync(LOCK, STAMP);
  process.stderr.write('done\n');
}

export function rivalVersion(): string {
  const { version } = JSON.parse(readFileSync(join(DIR, 'node_modules/bullmq/package.json'), 'utf8'));
  return `BullMQ ${version}`;
}

/** Number of events in an array, and number of events in a batch. */
export const ARRAY = 100;
export const JOB_AN_EVENT = 'a job an event';
export const JOB_AN_ARRAY = 'a job an array';

/** The name of a row of the bus of this checkout, for targets. */
export const busRow = (name: string) => `bus, ${name}`;
export const rivalRow = (name: string, way: string) => `BullMQ, ${name}, ${way}`;

/**
 * Returns a row for each bus, and a row for each way in which BullMQ can do the work. A bus is compared with all of
 * these ways and with its `others`. A way is compared with the bus of this checkout.
 */
export function beside(
  name: string,
  buses: { name: string; others: string[]; measure: () => Promise<Figures> }[],
  rival: Record<string, () => Promise<Figures>>,
): Case[] {
  const its = Object.entries(rival).map(([way, measure]) => ({ row: rivalRow(name, way), measure }));
  return [
    ...buses.map((bus) => ({
      row: `${bus.name}, ${name}`,
      floors: [...its.map(({ row }) => row), ...bus.others.map((other) => `${other}, ${name}`)],
      measure: bus.measure,
    })),
    ...its.map((each) => ({ ...each, floors: [busRow(name)] })),
  ];
}

/** The work of a bus, done with BullMQ: a Redis, one web process and, on demand, a worker process. */
export class Rival {
  readonly port: number;
  readonly redis: PrivateRedis;
  readonly store: Store;
  readonly web: BusProcess;
  readonly #stage: Stage;

  /** `subscribers`: the callbacks of each topic. */
  static async start(stage: Stage, subscribers: Record<string, string[]>): Promise<Rival> {
    const redis = await stage.redis();
    const web = stage.node(DIR, ['web.js'], {
      ...environment(redis),
      SUBSCRIBERS: JSON.stringify(subscribers),
      CREDENTIALS: `${CREDENTIALS.token}:${CREDENTIALS.secret}`,
    });
    const { port } = await web.logs('listening');
    return new Rival(stage, redis, web, Number(port));
  }

  private constructor(stage: Stage, redis: PrivateRedis, web: BusProcess, port: number) {
    this.#stage = stage;
    this.redis = redis;
    this.store = new Store(redis.url);
    this.web = web;
    this.port = port;
  }

  /** The part of a `LoadPlan` that names the server. */
  get target() {
    return { port: this.port, credentials: { scheme: 'basic', ...CREDENTIALS } as const };
  }

  /** How many jobs wait or are under way. */
  async unfinished(): Promise<number> {
    const lists = ['wait', 'active'].map((name) => this.store.call('LLEN', `bull:deliveries:${name}`));
    return (await Promise.all(lists)).reduce<number>((sum, length) => sum + Number(length), 0);
  }

  /** Starts a worker process with this many deliveries in flight. */
  async readyWorker(concurrency: number): Promise<BusProcess> {
    const env = { ...environment(this.redis), CONCURRENCY: String(concurrency) };
    const worker = this.#stage.node(DIR, ['worker.js'], env);
    await worker.logs('delivering');
    return worker;
  }
}

/** The environment that the documentation of BullMQ and of Express advises for production. */
function environment(redis: PrivateRedis): Record<string, string> {
  return { PATH: process.env.PATH ?? '', NODE_ENV: 'production', REDIS_URL: redis.url };
}
