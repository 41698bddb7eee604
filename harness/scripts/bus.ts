import { addedBySubscriber } from '../../src/publishing/publication.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import type { QueueName } from '../../src/store/job.ts';
import { msOf } from '../../src/store/replies.ts';
import { storedSettings } from '../../src/subscribing/subscription_settings.ts';
import {
  type Begun,
  DELAY_LIMITS,
  type Delaying,
  PUBLISH_LIMITS,
  type Published,
  ROOM,
  type Timed,
  type Wanted,
} from './bus_inputs.ts';
import { type GapState, readGaps } from './gaps.ts';
import { imageOf } from './image.ts';
import { longName, packNamed, seedOf, shortName } from './names.ts';
import { readState, type State } from './state.ts';
import { DELIVERY_LOG, LANE_LIMIT, LANE_LIMIT_MAX, WorkerCalls } from './worker_calls.ts';

const OVERLAP_MS = 60_000;
/** The deadline of batches, unless a test sets another: none falls due within a test, however busy the machine is. */
const BATCH_TIMEOUT_MS = 60_000;

/** Returns undefined for an empty setting, which is then left out. */
const given = <T>(setting: T | ''): T | undefined => (setting === '' ? undefined : setting);

/** Calls the scripts as the bus does, with names in place of UIDs and packed jobs. */
export class Bus extends WorkerCalls {
  /** Returns the time by Redis's clock, in whole ms. Nothing that happens later has an earlier time. */
  async nowMs(): Promise<number> {
    return msOf(await this.store.redis.time());
  }

  state(): Promise<State> {
    return imageOf(this.store).then(readState);
  }

  async subscribe(
    token: string,
    {
      topics = ['widgets'],
      timeout = BATCH_TIMEOUT_MS,
      max = 100,
      maxBytes,
      ordered = '',
      inFlight = '',
      laneLimit = LANE_LIMIT,
      signingKey = '',
      proven = true,
    }: Wanted = {},
  ): Promise<void> {
    await this.store.run('subscribe', {
      token,
      callback: `https://${token}.example/`,
      uuid: 'u',
      settings: storedSettings({
        timeout: given(timeout),
        max_events: given(max),
        max_bytes: maxBytes,
        ordered: ordered === '' ? undefined : ordered === 1,
        max_in_flight: given(inFlight),
      }),
      laneLimit,
      laneLimitMax: LANE_LIMIT_MAX,
      signingKey: given(signingKey),
      signingOverlapMs: OVERLAP_MS,
      maxTopics: ROOM,
      maxSubscribers: ROOM,
      topics,
      foreign: [],
    });
    const { redis, keys } = this.store;
    if (proven) await redis.hsetnx(keys.subscriber(token), 'sent', '1');
  }

  /** Stores a publication of the client `shop`. The first batch that it makes gets the name `{seed}1`. */
  async publish(seed: string, topic: string, events: (string | Buffer)[]): Promise<void> {
    const { accepted } = await this.publishAll(seed, [topic, 'shop', events]);
    if (accepted[0] === 'claimed_by_other') throw new Error(`${topic} is another client's`);
  }

  async publishAll(seed: string, ...publications: Published[]) {
    const reply = await this.store.run('publish', {
      uidSeed: seedOf(seed),
      ...PUBLISH_LIMITS,
      // With this quota a used key counts for a minute, longer than a test takes. With ROOM it would count for 60 ms.
      maxClientKeys: 10,
      publications: publications.map(([topic, client, events, key]) => ({ topic, client, ...key, events })),
    });
    const added: Record<string, number> = {};
    for (const [token, events] of reply.published.flatMap(addedBySubscriber))
      added[token] = (added[token] ?? 0) + events;
    // For each publication the number of subscribers that got it, or the reason of its refusal.
    const accepted = reply.outcomes.map((outcome, index) =>
      outcome === 'accepted' ? (reply.subscribers[index] ?? 0) : outcome,
    );
    return { accepted, added };
  }

  async pause(token: string, by: 'operator' | 'subscriber' = 'operator'): Promise<Reply<'pause'>> {
    return this.store.run('pause', { token, by });
  }

  async resume(token: string, by: 'operator' | 'subscriber' = 'operator'): Promise<Reply<'resume'>> {
    return this.store.run('resume', { token, by, laneLimitMax: LANE_LIMIT_MAX });
  }

  /** Publishes delayed events as the client `shop`. Returns the outcome, and the number of events added at once. */
  async delay(
    seed: string,
    topic: string,
    events: Timed[],
    { client = 'shop', key, limits = {} }: Delaying = {},
  ) {
    const { outcomes, published } = await this.store.run('delay', {
      ...{ uidSeed: seedOf(seed), ...DELAY_LIMITS, maxClientKeys: 10, ...limits },
      publications: [{ topic, client, ...key, events: events.map((each) => ({ text: each.id, ...each })) }],
    });
    const [{ outcome, index } = { outcome: '', index: undefined }] = outcomes;
    return { outcome, index, added: Object.fromEntries(published.flatMap(addedBySubscriber)) };
  }

  /** Publishes events that are due, in one call. Returns their number by topic, and whether more events are due. */
  async publishDelayed(seed: string, turn = 0) {
    const { maxOutboxBytes } = PUBLISH_LIMITS;
    const reply = await this.store.run('publish_delayed', {
      uidSeed: seedOf(seed),
      firstClient: turn,
      maxOutboxBytes,
    });
    const published = Object.fromEntries(reply.published.map(({ topic, events }) => [topic, events]));
    return { ...reply, published };
  }

  /** Makes the delayed events of a topic due earlier, by `ms`. */
  async hasten(topic: string, ms: number): Promise<void> {
    const { redis, keys } = this.store;
    for (const entry of await redis.zrange(keys.delayed_due(topic), '0', '-1'))
      await redis.zincrby(keys.delayed_due(topic), -ms, entry);
    await redis.zincrby(keys.delayed_topics(), -ms, topic);
  }

  async runJob(job: string, q: QueueName = 'main'): Promise<Reply<'run_job'>> {
    return this.store.run('run_job', { q, job: packNamed(job) });
  }

  /** Returns the name of the batch with the test event; undefined if there is no such subscriber. */
  async sendTest(token: string, event: string, seed = 'test'): Promise<string | undefined> {
    const { bid } = await this.store.run('send_test', { token, event, uidSeed: seedOf(seed) });
    return bid && shortName(bid);
  }

  /** Tries a batch at once, if it is of one of these subscribers; by default of any. */
  async retryBatch(name: string, tokens: string[] = []): Promise<Reply<'retry_batch'>> {
    return this.store.run('retry_batch', { tokens, bid: longName(name) });
  }

  /** Makes a waiting batch a dead letter, if it is of one of these subscribers; by default of any. */
  async buryBatch(name: string, tokens: string[] = []): Promise<Reply<'bury_batch'>> {
    return this.store.run('bury_batch', { tokens, bid: longName(name) });
  }

  async schedule(limit = 100) {
    const { promoted, nextDueUs } = await this.store.run('schedule', { limit });
    return { promoted, nextDueMs: nextDueUs === undefined ? -1 : nextDueUs / 1000 };
  }

  async enqueue(job: string, leaseMs = 30_000): Promise<boolean> {
    return this.store.run('enqueue', { q: 'aux', job: packNamed(job), leaseMs });
  }

  async scrub(leaseMs: number) {
    const { workers, jobs } = await this.store.run('scrub', { leaseMs, hasOthers: true });
    return { workers, jobs: [jobs.main, jobs.aux] };
  }

  /** Runs one call of autodrop. Returns the number of dropped batches, and of dropped events by subscriber. */
  async autodrop(n: number) {
    const { batches, dropped } = await this.autodropStep(n);
    return { batches, dropped };
  }

  /**
   * Runs one call of autodrop. Also returns how many of the dropped events were in batches, not in dead letters.
   * `before` is the `begun` that the previous call returned.
   */
  async autodropStep(
    n: number,
    before: Begun = { begunTopics: [] },
    wanted: Arguments<'autodrop'>['orders'] = [{ maxDeleted: n }],
  ) {
    const { orders, drops, ...begun } = await this.store.run('autodrop', {
      ...before,
      deliveryLog: DELIVERY_LOG,
      orders: wanted,
    });
    const deleted = orders.reduce((sum, each) => sum + each.deleted, 0);
    const by = (count: 'events' | 'queued'): Record<string, number> =>
      Object.fromEntries(drops.map((each) => [each.subscriber, each[count]]));
    return { batches: deleted, dropped: by('events'), queued: by('queued'), begun };
  }

  async dropQueue(token: string, maxBatches = 500, untilMs = Number.MAX_SAFE_INTEGER) {
    return this.store.run('drop_queue', { token, maxBatches, untilMs, deliveryLog: DELIVERY_LOG });
  }

  /**
   * Returns for each dead letter its subscriber and the number of its events that were queued again, or the reason why
   * it was not queued.
   */
  async revive(token: string, ...names: string[]): Promise<(string | [token: string, events: number])[]> {
    const reply = await this.store.run('revive', { token, bids: names.map(longName) });
    return reply.map((each) => (each.outcome === 'ok' ? [each.token ?? '', each.events ?? 0] : each.outcome));
  }

  /** Returns the number of deleted dead letters. */
  async purge(token: string, ...names: string[]): Promise<number> {
    return this.store.run('purge', { token, deliveryLog: DELIVERY_LOG, bids: names.map(longName) });
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
