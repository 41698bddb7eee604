import assert from 'node:assert/strict';
import { decode } from '@msgpack/msgpack';
import { readAcquired } from '../../src/delivering/acquired.ts';
import type { Batch } from '../../src/delivering/batch.ts';
import type { Grant, Subscriber } from '../../src/delivering/grant.ts';
import { SLOW_MS, type WorkerKind } from '../../src/delivering/queue.ts';
import { addedBySubscriber } from '../../src/publishing/publication.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import type { QueueName } from '../../src/store/job.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { DropNotice } from '../../src/subscribing/drop_notice.ts';
import { type GapState, readGaps } from './gaps.ts';
import { imageOf } from './image.ts';
import { jobName, longName, packNamed, seedOf, shortName } from './names.ts';
import { readState, type State } from './state.ts';

export interface Wanted {
  topics?: string[];
  timeout?: number | '';
  max?: number | '';
  maxBytes?: number;
  ordered?: 0 | 1 | '';
  inFlight?: number | '';
  signingKey?: string;
  /** It has taken batches before, so that it is not on trial; true unless a test says otherwise. */
  proven?: boolean;
}

export interface Handed {
  worker: string;
  job: string;
  /** The batch as stored: subscriber, creation, attempts, events. */
  batch?: string[];
  subscriber?: Subscriber;
  /** What was dropped, if it is to be told. */
  gap?: DropNotice | null;
}

/** A publication, with what its idempotency key comes to. */
export type Published = [
  topic: string,
  client: string,
  events: (string | Buffer)[],
  idempotency?: { digest: string; fingerprint: string } | undefined,
];

/** By what a worker holds a job. */
interface Held {
  /** The number of its lease; by default that of the last which it was given. */
  lease?: number | undefined;
  leaseMs?: number;
}

/** A job that was done; by default one that delivered a batch, quickly. */
export interface FinishedJob {
  worker: string;
  job: string;
  lease?: number | undefined;
  bid?: string;
  heal?: number;
  tookMs?: number;
}

/** The settings of a queue. */
interface Settings {
  q?: QueueName;
  laneLimit?: number;
  leaseMs?: number;
  slowMs?: number;
}

/** What a failure does. */
interface Failing {
  damage?: number;
  throttleMs?: number;
  attempt?: string;
}

/** What a call of `autodrop` began to count. */
export type Begun = Omit<Arguments<'autodrop'>, 'cuts'>;

/** Unless a test says otherwise. */
const LANE_LIMIT = 10;
/** Live workers beside those that acquire, since a lane holds at most a quarter: enough for lanes of any width here. */
const IDLE_WORKERS = 400;
/** For topics and for subscribers. */
const ROOM = 10_000;
const LANE_LIMIT_MAX = 100;
const LEASE_MS = 30_000;

/** Limits of `publish` that no test reaches by accident. */
export const PUBLISH_LIMITS = {
  idempotencyWindowMs: 600_000,
  maxTopics: ROOM,
  maxClientTopics: ROOM,
  maxClientKeys: ROOM,
};
const OVERLAP_MS = 60_000;

/** An empty setting is left out. */
const given = <T>(setting: T | ''): T | undefined => (setting === '' ? undefined : setting);

/** Calls the scripts as the bus does, with names in place of UIDs and packed jobs. */
export class Bus {
  readonly #store: () => Partition;
  /** The leases under which workers hold jobs, as acquire gave them. */
  readonly leases = new Map<string, number>();

  constructor(store: () => Partition) {
    this.#store = store;
  }

  get store(): Partition {
    return this.#store();
  }

  /** What happens in Redis's clock from here on is not before this; ms. */
  async nowMs(): Promise<number> {
    const [seconds, micros] = await this.store.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  state(): Promise<State> {
    return imageOf(this.store).then(readState);
  }

  async subscribe(
    token: string,
    {
      topics = ['widgets'],
      timeout = 500,
      max = 100,
      maxBytes,
      ordered = '',
      inFlight = '',
      signingKey = '',
      proven = true,
    }: Wanted = {},
  ): Promise<void> {
    await this.store.run('subscribe', {
      token,
      callback: `https://${token}.example/`,
      uuid: 'u',
      timeoutMs: given(timeout),
      maxEvents: given(max),
      maxBytes,
      ordered: given(ordered),
      maxInFlight: given(inFlight),
      laneLimitMax: LANE_LIMIT_MAX,
      signingKey: given(signingKey),
      signingOverlapMs: OVERLAP_MS,
      maxTopics: ROOM,
      maxSubscribers: ROOM,
      topics,
    });
    const { redis, keys } = this.store;
    if (proven) await redis.hsetnx(keys.subscriber(token), 'sent', '1');
  }

  /** One publication of the client `shop`. The first batch that it makes is named `{seed}1`. */
  async publish(seed: string, topic: string, events: (string | Buffer)[]): Promise<void> {
    const { accepted } = await this.publishAll(seed, [topic, 'shop', events]);
    if (accepted[0] === 'claimed_by_other') throw new Error(`${topic} is another client's`);
  }

  async publishAll(seed: string, ...publications: Published[]) {
    const reply = await this.store.run('publish', {
      uidSeed: seedOf(seed),
      ...PUBLISH_LIMITS,
      // So few that what a client has used is stored for longer than a test takes.
      maxClientKeys: 10,
      publications: publications.map(([topic, client, events, key]) => ({ topic, client, ...key, events })),
    });
    const added: Record<string, number> = {};
    for (const [token, events] of reply.added.flatMap(addedBySubscriber))
      added[token] = (added[token] ?? 0) + events;
    // How many subscribers got an accepted publication, or why it was refused.
    const accepted = reply.outcomes.map((outcome, index) =>
      outcome === 'accepted' ? (reply.subscribers[index] ?? 0) : outcome,
    );
    return { accepted, added };
  }

  async acquire(
    workers: string[],
    {
      q = 'main',
      laneLimit = LANE_LIMIT,
      leaseMs = LEASE_MS,
      slowMs = SLOW_MS,
      idle = IDLE_WORKERS,
      kind = 'regular',
      finished = [],
      seed = 'cut',
    }: Settings & {
      idle?: number;
      kind?: WorkerKind;
      finished?: FinishedJob[];
      /** Batches that this call cuts off others are named `{seed}1` and so on. */
      seed?: string;
    } = {},
  ) {
    if (q === 'main' && idle > 0 && workers.length > 0) await this.addIdleWorkers(idle);
    const reply = await this.store.run('acquire', {
      ...{ q, leaseMs, laneLimit, laneLimitMax: LANE_LIMIT_MAX, slowMs, uidSeed: seedOf(seed) },
      finished: finished.map((each) => this.#finished(each)),
      workers,
      kind,
    });
    const { left, grants, acks } = readAcquired(reply);
    for (const { worker, lease } of grants) this.leases.set(worker, lease);
    return {
      left,
      now: timeOf(reply),
      grants: await Promise.all(grants.map((grant) => this.#handed(grant))),
      acks: acks.flatMap(({ held, removed }) => [Number(held), removed]),
    };
  }

  /** Live workers that ask for no job. */
  async addIdleWorkers(count = IDLE_WORKERS): Promise<void> {
    const { redis, keys } = this.store;
    await redis.sadd(keys.workers_main(), ...Array.from({ length: count }, (_, i) => `idle${i}`));
  }

  async ack(
    worker: string,
    job: string,
    {
      q = 'main' as QueueName,
      laneLimit = LANE_LIMIT,
      leaseMs = LEASE_MS,
      slowMs = SLOW_MS,
      ...how
    }: Omit<FinishedJob, 'worker' | 'job'> & Settings = {},
  ) {
    const lanes = { q, leaseMs, laneLimit, laneLimitMax: LANE_LIMIT_MAX, slowMs };
    const { held, removed } = await this.store.run('ack', {
      ...lanes,
      ...this.#finished({ worker, job, ...how }),
    });
    return { held, removed };
  }

  async nack(
    worker: string,
    job: string,
    {
      q = 'main' as QueueName,
      delayMs = 0,
      damage = 0,
      throttleMs = 0,
      attempt = '',
      pause = 0,
      ...lease
    }: Held & Failing & { q?: QueueName; delayMs?: number; pause?: 0 | 1 } = {},
  ) {
    const gone = pause ? await this.#subscriptionOf(job) : undefined;
    const failure = { bid: bidOf(job), delayMs, damage, throttleMs, attempt, gone };
    return this.store.run('nack', { ...this.#held(q, worker, job, lease), ...failure });
  }

  async bury(
    worker: string,
    job: string,
    {
      damage = 0,
      throttleMs = 0,
      attempt = '{}',
      reason = 'max_attempts',
      ...lease
    }: Held & Failing & { reason?: string } = {},
  ) {
    const failure = { bid: bidOf(job), damage, throttleMs, attempt, reason };
    return this.store.run('bury', { ...this.#held('main', worker, job, lease), ...failure });
  }

  /** Buries what the worker of a quarantine held. */
  async condemn(worker: string) {
    const { bid, ...rest } = await this.store.run('condemn', { worker });
    return { job: bid && shortName(bid), ...rest };
  }

  /** Returns the workers whose leases are lost. */
  async heartbeat(workers: string[], { leaseMs = LEASE_MS, lease }: Held = {}): Promise<string[]> {
    const leases = workers.map((worker) => ({ worker, lease: lease ?? this.leases.get(worker) ?? 0 }));
    return this.store.run('heartbeat', { leaseMs, leases });
  }

  /** Returns when the subscriber of a batch subscribed, as `acquire` would return it now. */
  async #subscriptionOf(job: string): Promise<string> {
    const { redis, keys } = this.store;
    const token = await redis.lindex(keys.batch(bidOf(job)), 0);
    return (token && (await redis.hget(keys.subscriber(token), 'subscribed_at'))) || '0';
  }

  async #handed({ worker, packed, batch, subscriber, dropNotice }: Grant): Promise<Handed> {
    const handed: Handed = { worker, job: shortName(jobName(packed.toBuffer())) };
    // Nothing is read of a batch whose subscriber has left.
    if (batch && subscriber) handed.batch = await this.#asStored(batch);
    if (subscriber) handed.subscriber = subscriber;
    if (dropNotice) handed.gap = dropNotice;
    return handed;
  }

  async #asStored({ bid, token, createdAtMs, attempts, count, pieces }: Batch): Promise<string[]> {
    const { redis, keys } = this.store;
    const stored = await redis.lrange(keys.batch(bid), 3, -1);
    assert.deepEqual([stored.length, stored.join(',')], [count, pieces.join(',')]);
    return [token, String(createdAtMs), String(attempts), ...stored];
  }

  #finished({ worker, job, lease, bid = bidOf(job), heal = 1, tookMs = 5 }: FinishedJob) {
    return { worker, job: packNamed(job), lease: lease ?? this.leases.get(worker) ?? 0, bid, heal, tookMs };
  }

  #held(q: QueueName, worker: string, job: string, { lease, leaseMs = LEASE_MS }: Held) {
    return { q, worker, job: packNamed(job), lease: lease ?? this.leases.get(worker) ?? 0, leaseMs };
  }

  async schedule(limit = 100) {
    const { promoted, nextDueUs } = await this.store.run('schedule', { limit });
    return { promoted, nextDueMs: nextDueUs === undefined ? -1 : nextDueUs / 1000 };
  }

  async enqueue(job: string, leaseMs = 30_000): Promise<boolean> {
    return this.store.run('enqueue', { q: 'aux', job: packNamed(job), leaseMs });
  }

  async scrub(leaseMs: number) {
    const { workers, jobs } = await this.store.run('scrub', { leaseMs });
    return { workers, jobs: [jobs.main, jobs.aux] };
  }

  /** Runs one call of autodrop. Returns the number of dropped batches, and of dropped events by subscriber. */
  async autodrop(n: number) {
    const { batches, dropped } = await this.autodropStep(n);
    return { batches, dropped };
  }

  /** The same, with how many of the events were in batches; `begun` is what the step before had begun to count. */
  async autodropStep(
    n: number,
    before: Begun = { begunTopics: [] },
    wanted: Arguments<'autodrop'>['cuts'] = [{ maxDeleted: n }],
  ) {
    const { cuts, drops, ...begun } = await this.store.run('autodrop', { ...before, cuts: wanted });
    const deleted = cuts.reduce((sum, each) => sum + each.deleted, 0);
    const by = (count: 'events' | 'queued'): Record<string, number> =>
      Object.fromEntries(drops.map((each) => [each.subscriber, each[count]]));
    return { batches: deleted, dropped: by('events'), queued: by('queued'), begun };
  }

  async dropQueue(token: string, maxBatches = 500, untilMs = Number.MAX_SAFE_INTEGER) {
    return this.store.run('drop_queue', { token, maxBatches, untilMs });
  }

  /** Returns for each letter the subscriber and number of events queued again, or why it was not. */
  async revive(client: string, ...names: string[]): Promise<(string | [token: string, events: number])[]> {
    const reply = await this.store.run('revive', { client, bids: names.map(longName) });
    return reply.map(({ outcome, token = '', events = 0 }) => (outcome === 'ok' ? [token, events] : outcome));
  }

  /** Returns the number of deleted letters. */
  async purge(client: string, ...names: string[]): Promise<number> {
    return this.store.run('purge', { client, bids: names.map(longName) });
  }

  /** Returns when a batch was opened (ms, clock of Redis). */
  async createdMs(name: string): Promise<number> {
    return Number(await this.store.redis.lindex(this.store.keys.batch(longName(name)), 1));
  }

  /** Makes the delivery of a batch instant, as if its deadline had come. */
  async ripen(name: string): Promise<void> {
    const { redis, keys } = this.store;
    await redis.zadd(keys.jobs_scheduled('main'), 'XX', await this.nowMs(), packNamed(name));
    await this.schedule();
  }

  gaps(token: string): Promise<GapState> {
    return readGaps(this.store, token);
  }

  /** Returns the hash of a subscriber. */
  async subscriber(token: string): Promise<Record<string, string>> {
    return this.store.redis.hgetall(this.store.keys.subscriber(token));
  }
}

function bidOf(job: string): string {
  return /\d$/.test(job) ? String(packNamed(job).subarray(-20)) : '';
}

/** Returns the time (ms) in a reply of `acquire`. */
function timeOf([head = Buffer.of()]: Reply<'acquire'>): number {
  return (decode(head) as number[])[1] as number;
}
