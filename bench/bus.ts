import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { BusClient, type Credentials } from '../src/local/bus_client.ts';
import type { PrivateRedis } from '../src/local/redis_server.ts';
import type { Running, Stage } from './stage.ts';

export const TOPIC = 'widgets';
const ROOT_KEY = 'the-root-key-of-a-bus-that-lives-for-a-benchmark';
/** What is not to be delivered by its deadline has this one, in ms: the longest that the bus takes. */
export const FAR_MS = 3_600_000;

/** This checkout. */
export const OWN_TREE = join(import.meta.dirname, '..');

export interface Subscription {
  callback: string;
  timeout: number;
  max: number;
}

/** A bus: a Redis, one web process and, while it is wanted, one worker process. It has a publisher and a subscriber. */
export class Bus {
  readonly port: number;
  readonly redis: PrivateRedis;
  readonly web: Running;
  readonly publisher: Credentials;
  readonly #stage: Stage;
  readonly #tree: string;
  readonly #root: BusClient;
  readonly #subscriber: Credentials;
  readonly #client: BusClient;

  /** Starts the bus of a checkout. */
  static async start(stage: Stage, tree = OWN_TREE): Promise<Bus> {
    const redis = await stage.redis();
    const web = stage.node(tree, 'src/web.ts', environment(redis));
    const { port } = JSON.parse(await web.said('"listening"')) as { port: number };
    const url = `http://127.0.0.1:${port}`;
    const root = new BusClient(url, { token: ROOT_KEY, secret: 'x' });
    await ready(root);
    const make = async (name: string) => (await root.call('POST', '/api_tokens', { name })) as Credentials;
    return new Bus(stage, tree, { redis, web, port, root }, await make('billing'), await make('search'));
  }

  private constructor(
    stage: Stage,
    tree: string,
    parts: { redis: PrivateRedis; web: Running; port: number; root: BusClient },
    publisher: Credentials,
    subscriber: Credentials,
  ) {
    this.#stage = stage;
    this.#tree = tree;
    this.port = parts.port;
    this.redis = parts.redis;
    this.web = parts.web;
    this.#root = parts.root;
    this.publisher = publisher;
    this.#subscriber = subscriber;
    this.#client = new BusClient(`http://127.0.0.1:${parts.port}`, subscriber);
  }

  worker(): Running {
    return this.#stage.node(this.#tree, 'src/worker.ts', environment(this.redis));
  }

  async subscribe({ callback, timeout, max }: Subscription): Promise<void> {
    await this.#client.call('POST', '/subscription', {
      topics: [TOPIC],
      callback,
      uuid: 'benchmark',
      timeout,
      max,
    });
  }

  /** Forgets the subscriber with its queue; it is not an error if there is none. */
  async forgetSubscriber(): Promise<void> {
    await this.#root.call('DELETE', `/subscribers/${this.#subscriber.token}`).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }

  /** Resolves when nothing is queued: every delivery has been acknowledged. Throws if that takes longer than seconds. */
  async drained(): Promise<void> {
    for (let attempt = 0; attempt < 500; attempt++) {
      const [own] = (await this.#client.call('GET', '/subscriptions')) as { events: { queued: number } }[];
      if (own?.events.queued === 0) return;
      await pause(10);
    }
    throw new Error('events were delivered, and stayed queued');
  }
}

/** Nothing of our own environment: a variable that is set by chance must not change what is measured. */
function environment(redis: PrivateRedis): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    ROUTEMASTER_REDIS_URL: redis.url,
    ROUTEMASTER_ROOT_KEY: ROOT_KEY,
    ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8',
    // The subscriber of the delivery part holds back answers for as long as it takes to publish a backlog.
    ROUTEMASTER_TIMEOUT: '600',
  };
}

async function ready(root: BusClient): Promise<void> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const answered = await root.call('GET', '/pulse').then(
      () => true,
      () => false,
    );
    if (answered) return;
    await pause(10);
  }
  throw new Error('the bus does not answer');
}
