import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach } from 'node:test';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';
import { aroundTests } from '../around_tests.ts';
import type { Credentials } from '../http/bus_client.ts';
import { Client } from '../http/client.ts';
import { Receiver } from '../http/receiver.ts';
import { parseProcfile } from '../local/procfile.ts';
import type { PrivateCluster } from '../redis/private_cluster.ts';
import type { PrivateRedis } from '../redis/private_redis.ts';
import type { SentinelTrio } from '../redis/sentinel_trio.ts';
import { PARTITIONS } from '../redis/store.ts';
import { assertPartitionsConsistent } from '../scripts/crossing.ts';
import { assertNothingToSweep } from '../scripts/sweep.ts';
import { until } from '../until.ts';
import { busEnvironment, ROOT_KEY } from './bus_environment.ts';
import { BusProcess } from './bus_process.ts';
import { BusRedis, type BusRedisSettings } from './bus_redis.ts';
import { root } from './command.ts';
import { processesWith } from './processes.ts';

const LINES = parseProcfile(readFileSync(join(root, 'Procfile'), 'utf8'));

export interface BusSettings extends BusRedisSettings {
  /** Folder of the release that runs; by default this one. */
  folder?: string;
  /** Fills Redis before any process starts. */
  prepare?: (store: Partition) => Promise<void>;
}

interface SceneOptions {
  timeout?: number;
  max?: number;
  tls?: { key: string; cert: string };
}

/** A publisher, a topic, and one subscriber of the topic with its receiver. */
export interface Scene {
  publisher: Client;
  topic: string;
  subscriber: Client;
  receiver: Receiver;
}

/** A test or fault scenario. It calls the functions given to `after` when it ends. */
export interface Owner {
  after(end: () => unknown): void;
}

/** A private Redis, and the Procfile's web and worker as processes. */
export class RunningBus {
  readonly #settings: BusSettings;
  readonly #mark = `ROUTEMASTER_TEST_BUS=${randomUUID()}`;
  readonly #announced: RegExp[] = [];
  #processes: BusProcess[] = [];
  #redis: BusRedis | undefined;
  #url = '';
  #scenes = 0;
  #works: Promise<unknown> = Promise.resolve();

  /** A bus for the tests of a file or suite. After each test it checks the state of Redis. */
  static forTests(settings: BusSettings = {}): RunningBus {
    const bus = new RunningBus(settings);
    const begin = () => {
      bus.#works = bus.#open().then(() => Promise.all([bus.start('web'), bus.start('worker')]));
      return bus.#works;
    };
    aroundTests(begin, () => bus.close());
    afterEach(() => bus.assertSound());
    return bus;
  }

  /** Starts only the Redis of a bus. */
  static async open(settings: BusSettings = {}): Promise<RunningBus> {
    const bus = new RunningBus(settings);
    await bus.#open();
    return bus;
  }

  private constructor(settings: BusSettings) {
    this.#settings = settings;
  }

  /** The only Redis, or the present master of the sentinels. */
  get redis(): PrivateRedis {
    return this.#own.master;
  }

  /** Redis with its replicas and sentinels. Throws if the bus has none. */
  get trio(): SentinelTrio {
    return this.#own.trio;
  }

  /** The Redis Cluster of the bus. Throws if the bus runs on a single Redis. */
  get cluster(): PrivateCluster {
    return this.#own.cluster;
  }

  get partitions(): Partitions {
    return this.#own.partitions;
  }

  /** The first partition; by default the bus has no other. */
  get store(): Partition {
    return this.partitions.control;
  }

  /** The URL of web. */
  get url(): string {
    return this.#url;
  }

  /**
   * Resolves when a bus for tests works. Hooks of a file that need it wait for this: hooks begin in their order, but do
   * not wait for each other.
   */
  get works(): Promise<unknown> {
    return this.#works;
  }

  get root(): Client {
    return this.clientOf(ROOT_KEY, 'x');
  }

  /** Returns the process of a line of the Procfile; the latest if there are several. */
  process(name: 'web' | 'worker'): BusProcess {
    const running = this.#processes.findLast((each) => each.name === name && each.runs);
    if (!running) throw new Error(`no ${name} runs`);
    return running;
  }

  /** Starts another process of the Procfile, with settings of its own. Resolves when it works. */
  async start(name: 'web' | 'worker', env: Record<string, string> = {}): Promise<BusProcess> {
    const line = LINES.find((each) => each.name === name);
    if (!line) throw new Error(`the Procfile has no ${name}`);
    const started = new BusProcess(line, this.#environmentOf(env), this.#settings.folder);
    this.#processes.push(started);
    if (name === 'worker') {
      await started.logs('delivering');
    } else {
      const { port } = await started.logs('listening');
      this.#url = `http://127.0.0.1:${port}`;
      await until(() => this.root.call('GET', '/pulse').then(() => true), { what: 'web works' });
    }
    return started;
  }

  /** Announces that processes may log errors that match. Any other logged error is a fault. */
  announceError(pattern: RegExp): void {
    this.#announced.push(pattern);
  }

  clientOf(token: string, secret: string): Client {
    return new Client(this.#url, { token, secret });
  }

  async client(name: string): Promise<Client> {
    const { token, secret } = (await this.root.call('POST', '/api_tokens', { name })) as Credentials;
    return this.clientOf(token, secret);
  }

  async receiver(t: Owner, tls?: { key: string; cert: string }): Promise<Receiver> {
    const receiver = await Receiver.start(tls);
    t.after(() => receiver.stop());
    return receiver;
  }

  /** Makes a publisher and a subscriber of a topic that no other test uses. */
  async scene(t: Owner, { timeout = 0, max = 1, tls }: SceneOptions = {}): Promise<Scene> {
    const topic = `topic_${++this.#scenes}`;
    const publisher = await this.client('publisher');
    const subscriber = await this.client('subscriber');
    const receiver = await this.receiver(t, tls);
    const { callback } = receiver;
    await subscriber.call('POST', '/subscription', { topics: [topic], callback, uuid: 'me', timeout, max });
    return { publisher, topic, subscriber, receiver };
  }

  /** Returns a counter of the whole bus from `/metrics`; 0 if it is not there. */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const response = await fetch(`${this.#url}/metrics`, {
      headers: { authorization: `Basic ${btoa(`${ROOT_KEY}:x`)}` },
    });
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    const lines = (await response.text()).split('\n');
    const line = lines.find(
      (each) => /^\w+/.exec(each)?.[0] === name && wanted.every((w) => each.includes(w)),
    );
    return Number(line?.split(' ').at(-1) ?? 0);
  }

  /**
   * Asserts that no process failed, logged an error, or found anything to sweep, and that the data in Redis
   * is consistent, or soon will be if something is under way.
   */
  async assertSound(): Promise<void> {
    const faults = this.#processes.flatMap((each) => each.faults(this.#announced));
    assert.equal(faults.join('\n'), '');
    const { partitions } = this;
    const consistent = async () => {
      // Finds the present masters of a cluster: a failover may have changed them.
      await Promise.all(
        partitions.all.map((each) => each.command((redis, keys) => redis.get(keys.schema()))),
      );
      await assertPartitionsConsistent(partitions);
      return true;
    };
    await until(consistent, { everyMs: 20, what: 'Redis is consistent' });
    for (const partition of partitions.all) await assertNothingToSweep(partition);
  }

  /** Stops all processes and Redis. Throws if a process failed, or left something behind. */
  async close(): Promise<void> {
    await Promise.all(this.#processes.filter(({ runs }) => runs).map((each) => each.stop()));
    await this.#redis?.stop();
    const left = processesWith(this.#mark);
    for (const { pid } of left) process.kill(pid, 'SIGKILL');
    const faults = this.#processes.flatMap((each) => each.faults(this.#announced));
    assert.equal([...faults, ...left.map(({ command }) => `left behind: ${command}`)].join('\n'), '');
  }

  async #open(): Promise<void> {
    this.#redis = await BusRedis.start(this.#settings);
    await this.#settings.prepare?.(this.store);
  }

  get #own(): BusRedis {
    if (!this.#redis) throw new Error('the tests have not begun');
    return this.#redis;
  }

  #environmentOf(env: Record<string, string>): NodeJS.ProcessEnv {
    const [name = '', value = ''] = this.#mark.split('=');
    const own = {
      ROUTEMASTER_REDIS_URL: this.#own.url,
      ROUTEMASTER_REDIS_PREFIX: this.#own.prefix,
      ROUTEMASTER_PARTITIONS: String(PARTITIONS),
    };
    return busEnvironment({ ...own, ...this.#settings.env, ...env, [name]: value });
  }
}
