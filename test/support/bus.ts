import type { QueueName } from '../../src/models/job.ts';
import type { ScriptReply, Store } from '../../src/redis/store.ts';
import { jobName, packNamed, seedOf, shortName } from './names.ts';
import { readState, type State } from './state.ts';

export interface Wanted {
  topics?: string[];
  timeout?: number | '';
  max?: number | '';
}

export interface Handed {
  worker: string;
  job: string;
  /** The batch as stored: subscriber, creation, attempts, events. */
  batch?: string[];
  subscriber?: Record<string, string>;
}

/** Unless a test says otherwise. */
const LANE_LIMIT = 10;

const text = (reply: ScriptReply | undefined): string => String(reply);
const list = (reply: ScriptReply | undefined): string[] => (reply as ScriptReply[]).map(text);

/** Calls the scripts as the bus does, with names in place of UIDs and packed jobs. */
export class Bus {
  readonly #store: () => Store;

  constructor(store: () => Store) {
    this.#store = store;
  }

  get store(): Store {
    return this.#store();
  }

  /** What happens in Redis's clock from here on is not before this; ms. */
  async nowMs(): Promise<number> {
    const [seconds, micros] = await this.store.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  state(): Promise<State> {
    return readState(this.store);
  }

  async subscribe(
    token: string,
    { topics = ['widgets'], timeout = 500, max = 100 }: Wanted = {},
  ): Promise<void> {
    await this.store.run('subscribe', token, `https://${token}.example/`, 'u', timeout, max, ...topics);
  }

  /** One publication of the client `shop`. The first batch that it makes is named `{seed}1`. */
  async publish(seed: string, topic: string, events: string[]): Promise<void> {
    const { accepted } = await this.publishAll(seed, [topic, 'shop', events]);
    if (accepted[0] === -1) throw new Error(`${topic} is another client's`);
  }

  async publishAll(seed: string, ...publications: [topic: string, client: string, events: string[]][]) {
    const args = publications.flatMap(([topic, client, events]) => [topic, client, events.length, ...events]);
    const [accepted, added] = (await this.store.run('publish', seedOf(seed), ...args)) as [
      number[],
      ScriptReply[],
    ];
    return { accepted, added: pairs(added) };
  }

  async acquire(
    workers: string[],
    { q = 'main', laneLimit = LANE_LIMIT }: { q?: QueueName; laneLimit?: number } = {},
  ) {
    const [left, now, grants] = (await this.store.run('acquire', q, laneLimit, ...workers)) as [
      number,
      number,
      ScriptReply[],
    ];
    return { left, now, grants: grants.map(readHanded) };
  }

  async ack(
    worker: string,
    job: string,
    { q = 'main' as QueueName, heal = 1, bid = bidOf(job), laneLimit = LANE_LIMIT } = {},
  ) {
    const [held, removed] = list(
      await this.store.run('ack', q, worker, packNamed(job), bid, heal, laneLimit),
    );
    return { held: held === '1', removed: Number(removed) };
  }

  async nack(
    worker: string,
    job: string,
    { q = 'main' as QueueName, delayMs = 0, damage = 0, throttleMs = 0 } = {},
  ) {
    const reply = await this.store.run(
      'nack',
      q,
      worker,
      packNamed(job),
      delayMs,
      bidOf(job),
      damage,
      throttleMs,
    );
    return reply === 1;
  }

  async schedule(limit = 100) {
    const [promoted, nextDueMs] = (await this.store.run('schedule', limit, 'main', 'aux')) as [
      number,
      number,
    ];
    return { promoted, nextDueMs };
  }

  async enqueue(job: string, leaseMs = 30_000): Promise<boolean> {
    return (await this.store.run('enqueue', 'aux', packNamed(job), leaseMs)) === 1;
  }

  async scrub(leaseMs: number) {
    const [workers, jobs] = (await this.store.run('scrub', leaseMs, 'main', 'aux')) as [number, number[]];
    return { workers, jobs };
  }

  async autodrop(n: number) {
    const [batches, dropped] = (await this.store.run('autodrop', n)) as [number, ScriptReply[]];
    return { batches, dropped: pairs(dropped) };
  }

  async dropQueue(token: string, n = 500, untilMs: number | '+inf' = '+inf') {
    const [batches, events] = (await this.store.run('drop_queue', token, n, untilMs)) as [number, number];
    return { batches, events };
  }

  /** Makes the delivery of a batch instant, as if its deadline had come. */
  async ripen(name: string): Promise<void> {
    const { redis, keys } = this.store;
    await redis.zadd(keys.jobs_scheduled('main'), 'XX', await this.nowMs(), packNamed(name));
    await this.schedule();
  }

  /** A field of a subscriber's hash. */
  async subscriber(token: string): Promise<Record<string, string>> {
    return this.store.redis.hgetall(this.store.keys.subscriber(token));
  }
}

function bidOf(job: string): string {
  return /\d$/.test(job) ? String(packNamed(job).subarray(-20)) : '';
}

function pairs(flat: ScriptReply[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (let i = 0; i < flat.length; i += 2) found[text(flat[i])] = Number(flat[i + 1]);
  return found;
}

function readHanded(grant: ScriptReply): Handed {
  const [worker, job, batch, fields] = grant as ScriptReply[];
  const handed: Handed = { worker: text(worker), job: shortName(jobName(job as Buffer)) };
  if (batch) handed.batch = list(batch);
  if (fields) {
    const flat = list(fields);
    handed.subscriber = Object.fromEntries(
      flat.flatMap((each, i) => (i % 2 ? [] : [[each, flat[i + 1] ?? '']])),
    );
  }
  return handed;
}
