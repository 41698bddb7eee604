import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { BusClient, type Credentials } from '../harness/http/bus_client.ts';
import { parseProcfile } from '../harness/local/procfile.ts';
import type { Helper } from '../harness/measuring/helper.ts';
import type { BusProcess } from '../harness/processes/bus_process.ts';
import type { PrivateCluster } from '../harness/redis/private_cluster.ts';
import type { PrivateRedis } from '../harness/redis/private_redis.ts';
import { until } from '../harness/until.ts';
import type { Options } from './options.ts';
import type { SinkCalls } from './processes/sink.ts';
import type { Stage } from './stage.ts';
import { Store } from './store.ts';
import { TOPIC } from './workload.ts';

export const ROOT_KEY = 'the-root-key-of-a-bus-that-lives-for-a-benchmark';
/** Maximum timeout of a subscription, in ms. Batches with it are delivered only when they are full. */
export const FAR_MS = 3_600_000;
/** A callback that is never called, because no worker runs. */
export const NOWHERE = 'https://127.0.0.1:9/events';

/**
 * Keys of the Ruby Routemaster's layout, which no version of the bus renames. They are read from Redis itself, because
 * a call of the API would list every subscriber.
 */
const KEYS = { queuedBatches: 'batches:gauges:batch', auxJobs: 'jobs:index:aux' };

/** The folder of this checkout. */
const OWN_TREE = join(import.meta.dirname, '..');
/** Clients that are made at a time. */
const AT_ONCE = 32;
/** Maximum time from the last delivery until all queues are empty. */
const DRAIN_MS = 10_000;
/** Maximum time until a new worker is idle. Its first sweep takes less, even beside ten million events. */
const SETTLE_MS = 300_000;
/**
 * A new worker counts as idle after no aux job was seen this many times in a row. It queues its first jobs one by one,
 * so there can be moments without a job between them.
 */
const IDLE_LOOKS = 20;

interface Subscription {
  topics: string[];
  callback: string;
  timeout: number;
  max: number;
}

/** A bus with a Redis of its own, one web process, a publisher and, on demand, worker processes. */
export class Bus {
  readonly port: number;
  readonly redis: PrivateRedis;
  readonly store: Store;
  readonly web: BusProcess;
  readonly publisher: Credentials;
  readonly #stage: Stage;
  readonly #tree: string;
  readonly #env: Record<string, string>;
  readonly root: BusClient;

  /** Starts the bus of a checkout. */
  static async start(stage: Stage, tree = OWN_TREE): Promise<Bus> {
    const redis = await stage.redis();
    return Bus.#startOn(stage, tree, redis, environment(redis.url));
  }

  /** Starts the bus of this checkout on a cluster. */
  static async startOnCluster(stage: Stage, cluster: PrivateCluster, partitions: number): Promise<Bus> {
    const env = { ...environment(cluster.url), ROUTEMASTER_PARTITIONS: String(partitions) };
    return Bus.#startOn(stage, OWN_TREE, cluster.nodes[0] as PrivateRedis, env);
  }

  static async #startOn(
    stage: Stage,
    tree: string,
    redis: PrivateRedis,
    env: Record<string, string>,
  ): Promise<Bus> {
    const web = stage.node(tree, argumentsOf(tree, 'web'), env);
    const port = Number((await web.logs('listening')).port);
    const root = new BusClient(`http://127.0.0.1:${port}`, { token: ROOT_KEY, secret: 'x' });
    await until(() => root.call('GET', '/pulse').then(() => true), {
      timeoutMs: 10_000,
      what: 'the bus answers',
    });
    const { token, secret } = (await root.call('POST', '/api_tokens', { name: 'billing' })) as Credentials;
    const publisher = { token, secret };
    return new Bus(stage, tree, { redis, web, port, root, publisher, env });
  }

  private constructor(
    stage: Stage,
    tree: string,
    parts: Pick<Bus, 'redis' | 'web' | 'port' | 'root' | 'publisher'> & { env: Record<string, string> },
  ) {
    this.#stage = stage;
    this.#tree = tree;
    this.#env = parts.env;
    this.port = parts.port;
    this.redis = parts.redis;
    this.store = new Store(parts.redis.url);
    this.web = parts.web;
    this.root = parts.root;
    this.publisher = parts.publisher;
  }

  /** The part of a `LoadPlan` that names the server. */
  get target() {
    return { port: this.port, credentials: { scheme: 'basic', ...this.publisher } as const };
  }

  /** Starts a worker process, and waits until its first jobs, such as a sweep, are done. */
  async readyWorker(env: Record<string, string> = {}): Promise<BusProcess> {
    const worker = this.worker(env);
    await worker.logs('delivering');
    await this.#settled();
    return worker;
  }

  worker(env: Record<string, string> = {}): BusProcess {
    return this.#stage.node(this.#tree, argumentsOf(this.#tree, 'worker'), {
      ...this.#env,
      ...env,
    });
  }

  /** Makes a client. */
  async client(name = 'search'): Promise<Credentials> {
    return (await this.root.call('POST', '/api_tokens', { name })) as Credentials;
  }

  async subscribe(client: Credentials, subscription: Subscription): Promise<void> {
    const its = new BusClient(`http://127.0.0.1:${this.port}`, client);
    await its.call('POST', '/subscription', { uuid: 'benchmark', ...subscription });
  }

  /** Makes this many clients with the same subscription. */
  async audience(count: number, subscription: Subscription): Promise<void> {
    let left = count;
    const some = async () => {
      while (left-- > 0) await this.subscribe(await this.client(), subscription);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, some));
  }

  /** Resolves when nothing is queued: every delivery has been acknowledged. */
  async drained(): Promise<void> {
    const isEmpty = async () => Number(await this.store.call('HLEN', KEYS.queuedBatches)) === 0;
    await until(isEmpty, { timeoutMs: DRAIN_MS, what: 'no delivered event stays queued' });
  }

  /** Resolves when there is no aux job, such as a sweep, and none is queued any more. */
  async #settled(): Promise<void> {
    let idle = 0;
    const isIdle = async () => {
      const jobs = Number(await this.store.call('SCARD', KEYS.auxJobs));
      idle = jobs === 0 ? idle + 1 : 0;
      return idle > IDLE_LOOKS;
    };
    await until(isIdle, {
      timeoutMs: SETTLE_MS,
      everyMs: 10,
      what: 'the worker is no longer busy with itself',
    });
  }
}

/** Starts a bus, and a sink that gets the events of TOPIC, in batches of 100 that must be full. */
export async function startWithSink(stage: Stage): Promise<{ bus: Bus; sink: Helper<SinkCalls> }> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const bus = await Bus.start(stage);
  const callback = await sink.call('listen');
  await bus.audience(1, { topics: [TOPIC], callback, timeout: FAR_MS, max: 100 });
  return { bus, sink };
}

interface Started {
  /** The text with which the names of this bus's rows begin. */
  name: string;
  bus: Bus;
  /** The names of the buses that this one is compared with: those of other checkouts. */
  others: string[];
}

/** Starts the bus of this checkout and that of `--against`. */
export async function startBuses(stage: Stage, { against }: Options): Promise<Started[]> {
  const trees = [
    { name: 'bus', tree: OWN_TREE },
    ...(against ? [{ name: `bus of ${basename(against)}`, tree: against }] : []),
  ];
  return Promise.all(
    trees.map(async ({ name, tree }, index) => ({
      name,
      bus: await Bus.start(stage, tree),
      others: trees.slice(index + 1).map((other) => other.name),
    })),
  );
}

/** Node's arguments for this process, by the checkout's Procfile. */
function argumentsOf(tree: string, process: 'web' | 'worker'): string[] {
  const lines = parseProcfile(readFileSync(join(tree, 'Procfile'), 'utf8'));
  const [node, ...args] = lines.find(({ name }) => name === process)?.command.split(' ') ?? [];
  if (node !== 'node') throw new Error(`the Procfile of ${tree} does not run ${process} by node`);
  return args;
}

/** Returns the whole environment of the bus. It inherits nothing, as a stray variable must not change the figures. */
function environment(redisUrl: string): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    ROUTEMASTER_REDIS_URL: redisUrl,
    ROUTEMASTER_ROOT_KEY: ROOT_KEY,
    ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8',
    // Subscribers hold back their answers until a backlog is published; these deliveries must not time out.
    ROUTEMASTER_TIMEOUT: '600',
    // The part `backlog` makes ten thousand topics and as many subscribers.
    ROUTEMASTER_MAX_TOPICS: '20000',
    ROUTEMASTER_MAX_CLIENT_TOPICS: '20000',
    ROUTEMASTER_MAX_SUBSCRIBERS: '20000',
    // Pages of the console are asked for with a cookie, and count as requests without credentials.
    ROUTEMASTER_STRANGER_RATE: '0',
    // Keeps sweeps out of the measurement, which they would distort. A worker still sweeps when it starts.
    ROUTEMASTER_SWEEP_INTERVAL: '86400',
  };
}
