import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BusClient, type Credentials } from '../harness/http/bus_client.ts';
import type { Client } from '../harness/http/client.ts';
import type { Receiver } from '../harness/http/receiver.ts';
import type { Bar } from '../harness/measuring/report.ts';
import type { BusProcess } from '../harness/processes/bus_process.ts';
import { type BusSettings, type Owner, RunningBus } from '../harness/processes/running_bus.ts';
import { Random } from '../harness/random.ts';
import { loadScripts } from '../harness/redis/script_calls.ts';
import { until } from '../harness/until.ts';
import { sweep } from '../src/maintenance/sweep/sweep.ts';
import type { Keyspace } from '../src/store/keys.ts';
import { Ledger } from './ledger.ts';
import { Publishing, type PublishingOptions } from './publishing.ts';
import { RedisProxy } from './redis_proxy.ts';

const DRAINS_WITHIN_MS = 120_000;

/** The part of a scenario that a lab needs. */
interface Setting {
  name: string;
  bus?: BusSettings;
}

/** How a scenario is run. */
export interface LabOptions {
  seed: number;
  events: number;
  /** True for a run of seconds, in tests: fewer faults, closer together. */
  quick: boolean;
  /** The partitions of the bus, unless the scenario needs a number of its own. */
  partitions: number;
  /** Reports progress. */
  say: (text: string) => void;
}

/** A process of the bus, and the proxy between it and Redis. */
export interface Proxied {
  process: BusProcess;
  proxy: RedisProxy;
}

interface Wanted {
  topic: string | readonly string[];
  /** The number of the partition in which the subscriber shall be; by default any. */
  partition?: number;
  timeout?: number;
  max?: number;
  ordered?: boolean;
  max_attempts?: number;
}

/** A subscriber with its receiver. */
export interface Audience {
  subscriber: Client;
  receiver: Receiver;
}

/** The bus of one scenario: its processes, publishers and receivers, and the ledger of every event. */
export class Lab implements Owner {
  readonly seed: number;
  readonly events: number;
  readonly quick: boolean;
  readonly say: (text: string) => void;
  readonly random: Random;
  readonly ledger = new Ledger();
  readonly bars: Bar[] = [];
  /** The longest time that the bus took to recover from a fault; undefined while nothing was measured. */
  recoveryMs: number | undefined;
  readonly bus: RunningBus;
  readonly #ends: (() => unknown)[] = [];
  readonly #proxies: RedisProxy[] = [];
  /** Every web process that has run, each with a client that calls it as the publisher. */
  readonly #webs = new Map<BusProcess, BusClient>();
  #publisher: Credentials | undefined;
  #publishings = 0;

  static async open(scenario: Setting, options: LabOptions): Promise<Lab> {
    const env = { ROUTEMASTER_PARTITIONS: String(options.partitions), ...scenario.bus?.env };
    const bus = await RunningBus.open({ ...scenario.bus, env });
    for (const partition of bus.partitions.all) await loadScripts(partition);
    return new Lab(scenario, options, bus);
  }

  private constructor({ name }: Setting, { seed, events, quick, say }: LabOptions, bus: RunningBus) {
    this.seed = seed;
    this.events = events;
    this.quick = quick;
    this.say = say;
    this.random = new Random(`${seed}/${name}`);
    this.bus = bus;
  }

  /** Calls `end` when the lab is closed, the latest first. */
  after(end: () => unknown): void {
    this.#ends.unshift(end);
  }

  /** Starts a process of the Procfile, and resolves when it works. */
  async start(name: 'web' | 'worker', env: Record<string, string> = {}): Promise<BusProcess> {
    const process = await this.bus.start(name, env);
    if (name === 'web') this.#webs.set(process, new BusClient(this.bus.url, await this.#asPublisher()));
    return process;
  }

  /**
   * Starts a process behind a proxy that can cut or delay its connections to Redis. Resolves when the process works.
   */
  async startProxied(name: 'web' | 'worker', env: Record<string, string> = {}): Promise<Proxied> {
    const proxy = await RedisProxy.start(this.bus.redis.socketPath ?? '');
    this.#proxies.push(proxy);
    return { process: await this.start(name, { ROUTEMASTER_REDIS_URL: proxy.url, ...env }), proxy };
  }

  /** Subscribes to topics. Unless `doomed`, the receiver must get every accepted event: the ledger checks that. */
  async subscribe(
    name: string,
    { topic, partition, ...wanted }: Wanted,
    { doomed = false } = {},
  ): Promise<Audience> {
    const topics = [topic].flat();
    const subscriber = await this.#clientIn(partition, name);
    const receiver = await this.bus.receiver(this);
    const { callback } = receiver;
    const subscription = { topics, callback, uuid: name, timeout: 0, max: 100, ...wanted };
    await subscriber.call('POST', '/subscription', subscription);
    const { ordered = false } = wanted;
    if (!doomed) for (const each of topics) this.ledger.expect({ topic: each, receiver, ordered });
    return { subscriber, receiver };
  }

  /** Starts publishers, which stop with the lab at the latest. */
  publish(options: Omit<PublishingOptions, 'name'>): Publishing {
    const name = `p${++this.#publishings}`;
    const running = () => [...this.#webs].flatMap(([process, client]) => (process.runs ? client : []));
    const publishing = new Publishing({ name, ...options }, this.ledger, running);
    this.after(() => publishing.stop());
    return publishing;
  }

  /** States something that must hold. */
  bar(text: string, ok: boolean, found?: string): void {
    this.bars.push({ text, ok, ...(found !== undefined && { found }) });
  }

  /** States that these processes still run. */
  noneExited(processes: readonly BusProcess[]): void {
    const ended = processes.filter(({ runs }) => !runs).map(({ name }) => name);
    this.bar('no process exits', ended.length === 0, ended.join());
  }

  /** States that no event was stored twice. */
  noneStoredTwice(): void {
    const { storedTwice } = this.ledger.totals();
    this.bar('stored twice 0', storedTwice === 0, `${storedTwice}`);
  }

  /**
   * States that ordered subscribers got their events in order. If `mayRewind`, events may come again from an earlier
   * one on: a new master lacks the last writes of the one before it.
   */
  noneOutOfOrder({ mayRewind = false } = {}): void {
    const { outOfOrder = 0, late } = this.ledger.totals();
    const ok = (mayRewind ? outOfOrder : late) === 0;
    this.bar('out of order 0', ok, `${outOfOrder}; ${late} receipts after later events`);
  }

  /** Reports how often Redis cut off a torn end of its AOF, if it did. */
  sayTornEnds(): void {
    const log = readFileSync(join(this.bus.redis.dir, 'redis.log'), 'utf8');
    const torn = [...log.matchAll(/Truncating the AOF/g)].length;
    // A Redis killed while it writes may replay half a script two starts later: see INTERNALS.md.
    if (torn > 0) this.say(`Redis cut off a torn end of its AOF ${torn} times`);
  }

  /**
   * Waits until the bus publishes and delivers again after a fault, and notes how long it took since `sinceMs` (of
   * `performance.now()`). Resolves with that time.
   */
  async worksAgain(sinceMs: number, publishing: Publishing, receiver: Receiver): Promise<number> {
    const [accepted, delivered] = [publishing.accepted, receiver.deliveries.length];
    await until(() => publishing.accepted > accepted && receiver.deliveries.length > delivered, {
      timeoutMs: 30_000,
      what: 'the bus publishes and delivers again',
    });
    const tookMs = performance.now() - sinceMs;
    this.recovered(tookMs);
    return tookMs;
  }

  /** Notes that the bus took this long to recover from a fault. */
  recovered(ms: number): void {
    this.recoveryMs = Math.max(this.recoveryMs ?? 0, ms);
  }

  /** Waits until nothing is queued. Throws if that takes too long, a process failed, or Redis is inconsistent. */
  async settle(): Promise<void> {
    const { all } = this.bus.partitions;
    const drained = () => this.#isDrained();
    await until(drained, { timeoutMs: DRAINS_WITHIN_MS, everyMs: 20, what: 'nothing is queued' });
    await this.bus.assertSound();
    const findings = (await Promise.all(all.map((each) => sweep(each)))).flat();
    const repaired = findings.map(({ kind, name }) => `${kind} ${name}`);
    if (repaired.length > 0) throw new Error(`the sweep had to repair: ${repaired.join(', ')}`);
  }

  /** Stops everything. Throws if a process failed, or left something behind. */
  async close(): Promise<void> {
    for (const end of this.#ends) await end();
    try {
      await this.bus.close();
    } finally {
      for (const proxy of this.#proxies) proxy.stop();
    }
  }

  async #isDrained(): Promise<boolean> {
    const { all } = this.bus.partitions;
    // The outboxes must be looked at first. Once they are empty, their entries are in queues.
    const outboxes = (keys: Keyspace) => [
      keys.outbox(),
      ...all.map(({ index }) => keys.outbox_aside(String(index))),
    ];
    const outgoing = all.map((each) => each.command((redis, keys) => redis.exists(...outboxes(keys))));
    if ((await Promise.all(outgoing)).some((count) => count > 0)) return false;
    const queued = all.map((each) => each.command((redis, keys) => redis.hlen(keys.gauge_events())));
    return (await Promise.all(queued)).every((subscribers) => subscribers === 0);
  }

  /** Makes a client of the bus. Tokens are random, so several must be made until one is in the wanted partition. */
  async #clientIn(partition: number | undefined, name: string): Promise<Client> {
    const { partitions } = this.bus;
    for (;;) {
      const client = await this.bus.client(name);
      if (partition === undefined || partitions.ofSubscriber(client.token).index === partition) return client;
    }
  }

  async #asPublisher(): Promise<Credentials> {
    this.#publisher ??= await this.bus.client('publisher');
    return this.#publisher;
  }
}
