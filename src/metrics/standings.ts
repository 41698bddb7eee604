import { clock } from '../clock.ts';
import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { isJoinToken } from '../ids.ts';
import type { Reply } from '../store/contracts.ts';
import type { Memory } from '../store/memory.ts';
import type { Partitions } from '../store/partitions.ts';
import { msOf } from '../store/replies.ts';

/** A rate is a running mean. After this time, a measurement counts about a third as much as at first. */
const WINDOW_MS = 60_000;
/** A rate below this (in events or bytes a second) is rounded to 0. */
const MIN_RATE = 1e-6;
const RATE_DIGITS = 4;
/**
 * How long a process keeps the figures of all subscribers that it has read. Reading 10,000 subscribers takes 30 ms or
 * more.
 */
const STANDINGS_KEPT_MS = 10_000;
/**
 * After this time, stored figures are outdated: they may lack subscribers that have come since. So a call that lists
 * subscribers then also asks Redis which subscribers there are. While a worker runs, the job `sample` stores new
 * figures every ten seconds.
 */
const OUTDATED_MS = 30_000;

/** The figures of one subscriber when the job `sample` last ran, and its rates at that time, in events a second. */
export interface Standing {
  token: string;
  queued: number;
  /** Time at which the subscriber's oldest queued batch was opened. Null if nothing is queued. */
  oldestAtMs: number | null;
  deadLetters: number;
  /** About how many bytes of Redis the subscriber's batches and dead letters take. */
  bytes: number;
  healthPoints: number;
  isPaused: boolean;
  delivered: number;
  failed: number;
  /** How fast the subscriber's queue grows, in events a second. Negative if it shrinks. */
  growth: number;
  /**
   * Number of events delivered to the subscriber since the bus was installed. The next sample needs it to compute the
   * rate.
   */
  totalDelivered: number;
  /**
   * Number of events in failed deliveries to the subscriber since the bus was installed. An event whose delivery fails
   * three times counts three times.
   */
  totalFailed: number;
  /** Time at which the measurement of the rates began. */
  sinceMs: number;
}

/** The figures of a topic when the job `sample` last ran. `published` is the rate then, in events a second. */
interface TopicStanding {
  name: string;
  published: number;
  /**
   * Number of events published to the topic since the bus was installed. The next sample needs it to compute the rate.
   */
  totalPublished: number;
  /** Time at which the measurement of the rate began. */
  sinceMs: number;
}

/** The figures of all subscribers and topics and of Redis's memory, from the last run of the job `sample`. */
export interface Standings {
  atMs: number;
  /** The figures and rates of each subscriber, without the joins. */
  subscribers: Standing[];
  /** The figures and rates of each join. */
  joins: Standing[];
  /** The figures and rates of each topic that has a counter. */
  topics: TopicStanding[];
  /**
   * Number of subscribers that the sample found, including joins. A listing compares it with the present number, to
   * notice that subscribers have come or gone.
   */
  members: number;
  memory: { used: number; highMark: number | null; growth: number };
  /**
   * The numbers of events of each partition (PartitionTotals) when it was last reached; null for a partition that was
   * never reached. Undefined if there is only one partition.
   */
  partitions?: (PartitionTotals | null)[] | undefined;
}

/**
 * Numbers of events since the bus was installed. `published` counts events of the partition's topics. `delivered`
 * counts events that its subscribers accepted, and `failed` counts events in failed deliveries to them, again at each
 * attempt. `dropped` counts events that were dropped for want of memory.
 */
export interface PartitionTotals {
  published: number;
  delivered: number;
  failed: number;
  dropped: number;
}

export interface ReadStandings extends Standings {
  isOutdated: boolean;
  /** The number of events a second that are published to each topic that has a counter. */
  topicRates: ReadonlyMap<string, number>;
}

export interface StandingsReading {
  atMs: number;
  subscribers: Reply<'census'>['subscribers'];
  totalsOf: (token: string) => Pick<PartitionTotals, 'delivered' | 'failed'>;
  /** Number of events published to each topic that has a counter, since the bus was installed. */
  topics: [name: string, published: number][];
  memory: Pick<Memory, 'used' | 'highMark'>;
  partitions?: Standings['partitions'];
}

const NOTHING = {
  ...{ queued: 0, delivered: 0, failed: 0, growth: 0, totalDelivered: 0, totalFailed: 0 },
  ...{ published: 0, totalPublished: 0 },
};

/**
 * Returns the figures of all subscribers and topics at the time of `reading`. Their rates are calculated from the
 * changes since `before`, the previous sample. Without a previous sample, the rates are 0.
 */
export function standingsAt(reading: StandingsReading, before: Standings | undefined): Standings {
  const { atMs, memory } = reading;
  const elapsedMs = before ? Math.max(1, atMs - before.atMs) : 0;
  const known = new Map(membersOf(before).map((each) => [each.token, each]));
  const rate = (now: number, then: number | undefined, last: number | undefined, sinceMs = 0) =>
    then === undefined ? 0 : mean(last ?? 0, ((now - then) * 1000) / elapsedMs, elapsedMs, atMs - sinceMs);
  // If a subscriber or topic is not in `before`, the previous sample, `newcomer` stands for its previous figures. On a
  // bus with one partition, the subscriber or topic is new, so these figures are 0. On a bus with several partitions,
  // its partition may have been away, so the figures are unknown (undefined).
  const newcomer = before && !reading.partitions ? { ...NOTHING, sinceMs: before.atMs } : undefined;
  const all = reading.subscribers.map((each): Standing => {
    const last = known.get(each.token) ?? newcomer;
    const sinceMs = last?.sinceMs ?? atMs;
    const totals = reading.totalsOf(each.token);
    return {
      token: each.token,
      queued: each.events,
      oldestAtMs: each.events > 0 ? atMs - each.oldestAgeMs : null,
      deadLetters: each.deadLetters,
      bytes: each.bytes,
      healthPoints: each.healthPoints ?? PERFECT_HEALTH,
      isPaused: each.isPaused,
      // A total falls if Redis loses counters. The rate is then 0 and not negative.
      delivered: Math.max(0, rate(totals.delivered, last?.totalDelivered, last?.delivered, sinceMs)),
      failed: Math.max(0, rate(totals.failed, last?.totalFailed, last?.failed, sinceMs)),
      growth: rate(each.events, last?.queued, last?.growth, sinceMs),
      totalDelivered: totals.delivered,
      totalFailed: totals.failed,
      sinceMs,
    };
  });
  const knownTopics = new Map(before?.topics.map((each) => [each.name, each]));
  const topics = reading.topics.map(([name, totalPublished]): TopicStanding => {
    const last = knownTopics.get(name) ?? newcomer;
    const sinceMs = last?.sinceMs ?? atMs;
    const published = Math.max(0, rate(totalPublished, last?.totalPublished, last?.published, sinceMs));
    return { name, published, totalPublished, sinceMs };
  });
  const highMark = Number.isFinite(memory.highMark) ? memory.highMark : null;
  const growth = rate(memory.used, before?.memory.used, before?.memory.growth);
  return {
    atMs,
    subscribers: all.filter(({ token }) => !isJoinToken(token)),
    joins: all.filter(({ token }) => isJoinToken(token)),
    members: reading.subscribers.length,
    memory: { used: memory.used, highMark, growth },
    topics,
    ...(reading.partitions && { partitions: reading.partitions }),
  };
}

/** Returns the figures of all subscribers, including joins. */
export function membersOf(standings: Standings | undefined): Standing[] {
  return standings ? [...standings.subscribers, ...standings.joins] : [];
}

/**
 * Returns the new mean of a rate: `last` is the mean so far, and `now` the rate during the last `elapsedMs`. The less
 * time since the first measurement of the rate (`ageMs`), the more `now` weighs. With a constant weight, the mean would
 * rise slowly from 0: after 40 seconds it would be only half of the true rate.
 */
function mean(last: number, now: number, elapsedMs: number, ageMs: number): number {
  const weightAfter = (ms: number) => 1 - Math.exp(-ms / WINDOW_MS);
  const value = last + ((now - last) * weightAfter(elapsedMs)) / weightAfter(Math.max(elapsedMs, ageMs));
  return Math.abs(value) < MIN_RATE ? 0 : Number(value.toPrecision(RATE_DIGITS));
}

/**
 * The fields of a subscriber's figures, in the order in which Redis stores their values. The names are not stored, so
 * 10,000 subscribers take about 1 MB.
 */
const FIELDS = [
  'token',
  'queued',
  'oldestAtMs',
  'deadLetters',
  'healthPoints',
  'isPaused',
  'delivered',
  'failed',
  'growth',
  'totalDelivered',
  'totalFailed',
  'sinceMs',
  'bytes',
] as const satisfies (keyof Standing)[];

/** The fields of a topic's figures, in the order in which Redis stores their values. */
const TOPIC_FIELDS = [
  'name',
  'totalPublished',
  'published',
  'sinceMs',
] as const satisfies (keyof TopicStanding)[];

/** The figures as Redis stores them. `rows` are those of the subscribers. */
interface Packed extends Omit<Standings, 'subscribers' | 'joins' | 'topics'> {
  rows: unknown[][];
  joins: unknown[][];
  topics: unknown[][];
}

export function packStandings({ subscribers, joins, topics, ...rest }: Standings): string {
  const packed: Packed = {
    ...rest,
    rows: subscribers.map((each) => rowOf(FIELDS, each)),
    joins: joins.map((each) => rowOf(FIELDS, each)),
    topics: topics.map((each) => rowOf(TOPIC_FIELDS, each)),
  };
  return JSON.stringify(packed);
}

export function unpackStandings(packed: string | undefined): Standings | undefined {
  if (!packed) return undefined;
  const { rows, joins, topics, ...rest } = JSON.parse(packed) as Packed;
  return {
    ...rest,
    subscribers: rows.map((row) => standingOf<Standing>(FIELDS, row)),
    joins: joins.map((row) => standingOf<Standing>(FIELDS, row)),
    topics: topics.map((row) => standingOf<TopicStanding>(TOPIC_FIELDS, row)),
  };
}

function rowOf<T>(fields: readonly (keyof T)[], standing: T): unknown[] {
  return fields.map((field) => standing[field]);
}

function standingOf<T>(fields: readonly (keyof T & string)[], row: unknown[]): T {
  const standing: Record<string, unknown> = {};
  for (const [index, field] of fields.entries()) standing[field] = row[index];
  return standing as unknown as T;
}

/**
 * The figures of all subscribers when the job `sample` last ran. A process reads them at most every ten seconds, and
 * gives all callers the same figures.
 */
export class LatestStandings {
  readonly #partitions: Partitions;
  #kept: Promise<ReadStandings | undefined> | undefined;
  #untilMs = 0;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Resolves with the figures, or undefined if the job `sample` has not run yet. Throws StorageUnavailable. */
  get(): Promise<ReadStandings | undefined> {
    const nowMs = clock.monotonicMs();
    if (this.#kept && nowMs < this.#untilMs) return this.#kept;
    const reading = this.#read();
    this.#kept = reading;
    this.#untilMs = nowMs + STANDINGS_KEPT_MS;
    reading.catch(() => {
      this.#untilMs = 0;
    });
    return reading;
  }

  async #read(): Promise<ReadStandings | undefined> {
    const [packed, time] = await this.#partitions.control.command((redis, keys) =>
      Promise.all([redis.get(keys.standings()), redis.time()]),
    );
    const standings = unpackStandings(packed ?? undefined);
    if (!standings) return undefined;
    const isOutdated = msOf(time) - standings.atMs > OUTDATED_MS;
    const topicRates = new Map(standings.topics.map(({ name, published }) => [name, published]));
    return { ...standings, isOutdated, topicRates };
  }
}
