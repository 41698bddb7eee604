import { chunksOf, slicesOf } from '../chunks.ts';
import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import type { Config } from '../config.ts';
import { isJoinToken } from '../ids.ts';
import type { Log } from '../log.ts';
import { type Count, readCounts } from '../metrics/counter_hash.ts';
import { type Figures, STEPS, STORED, type SubjectKind } from '../metrics/history.ts';
import { subjectOf } from '../metrics/series.ts';
import {
  membersOf,
  type PartitionTotals,
  packStandings,
  type Standings,
  standingsAt,
  unpackStandings,
} from '../metrics/standings.ts';
import type { Arguments } from '../store/contracts.ts';
import { type Memory, readFullestMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { type CensusSubscriber, census, firstPage } from './census.ts';

/** Maximum samples that one script call stores; 200 take Redis about 1 ms. */
const SAMPLES_PER_CALL = 200;
/** Number of counters that are added up in one turn of the event loop. 2,000 take about 1 ms. */
const COUNTERS_PER_TURN = 2000;
/**
 * Minimum time between two samples. Each process queues the job every ten seconds. Without this limit, there would be a
 * sample of each process, and one of 5,000 subscribers takes Redis 160 ms.
 */
const MIN_AGE_MS = STEPS.fine.ms / 2;

type Sample = Arguments<'sample'>['samples'][number];

/**
 * The `sample` job. Appends the present figures of the bus, and of the busiest topics and subscribers, to their
 * histories. Also stores the figures and rates of all subscribers and topics, by which listings are sorted (see
 * standings.ts). Does nothing if another process has just done so.
 */
export function sampleJob(parts: { config: Config; partitions: Partitions; log: Log }): () => Promise<void> {
  const { config, partitions, log } = parts;
  const steps = {
    fineMs: STEPS.fine.ms,
    fineKept: STEPS.fine.kept,
    coarseMs: STEPS.coarse.ms,
    coarseKept: STEPS.coarse.kept,
  };
  return async () => {
    const page = await firstPage(partitions.control);
    const last = unpackStandings(page.standings);
    if (last && last.atMs <= page.nowMs && page.nowMs - last.atMs < MIN_AGE_MS) return;
    const [{ counts, away }, { subscribers, ...found }, { memory }] = await Promise.all([
      readCounts(partitions, log),
      census(partitions, page),
      readFullestMemory(partitions, config),
    ]);
    const ofPartitions = totalsByPartition(partitions, counts, away, last?.partitions);
    // If Redis's clock was set back, the last sample has a later time than this one. The time between the two samples
    // is then not known, and no rates can be calculated.
    const before = last && last.atMs < found.nowMs ? last : undefined;
    const lost = ofPartitions?.filter((_, index) => away.includes(partitions.all[index] as Partition)) ?? [];
    const figures = await figuresOf({ counts, lost, subscribers, memory });
    const samples = samplesOf(figures, config.historySubjects, before);
    const totalsOf = (token: string) => {
      const { delivered = 0, failed = 0 } = figures.subscribers.get(token) ?? {};
      return { delivered, failed };
    };
    const topics = [...figures.topics].map(([name, { published }]): [string, number] => [name, published]);
    const reading = { atMs: found.nowMs, subscribers, totalsOf, topics, memory, partitions: ofPartitions };
    const beforeMs = before?.atMs ?? 0;
    const packed = packStandings(standingsAt(reading, before));
    const errors: unknown[] = [];
    // The sample of the whole bus is the first of `samples`, so it is stored first, with the standings. If it came
    // late, the history of the bus would have a gap. The history of a topic or subscriber has no gaps: if a sample is
    // missing, the figures count as unchanged.
    for (const [partition, its] of Map.groupBy(samples, (sample) => partitions.ofSubject(sample)))
      try {
        for (const slice of slicesOf(its, SAMPLES_PER_CALL)) {
          const standings = slice[0] === samples[0] ? packed : undefined;
          await partition.run('sample', { ...steps, standings, beforeMs, samples: slice });
        }
      } catch (error) {
        errors.push(error);
      }
    if (errors.length > 0) throw errors[0];
  };
}

/**
 * Returns for each partition how many events were published, how many were delivered, how many were in deliveries that
 * failed, and how many were dropped. Returns undefined if there is only one partition. A partition that cannot be
 * reached keeps the totals of the previous sample. Otherwise the totals of the bus would fall until the partition is
 * back.
 */
function totalsByPartition(
  { all }: Partitions,
  counts: readonly Count[],
  away: readonly Partition[],
  before: Standings['partitions'],
): Standings['partitions'] {
  if (all.length === 1) return undefined;
  const byPartition = Map.groupBy(counts, ({ partition }) => partition);
  return all.map((partition) => {
    if (away.includes(partition)) return before?.[partition.index] ?? null;
    const totals: PartitionTotals = { published: 0, delivered: 0, failed: 0, dropped: 0 };
    for (const count of byPartition.get(partition) ?? []) addTotal(count, totals);
    return totals;
  });
}

function addTotal(
  { name, tags, value }: Count,
  bus: PartitionTotals,
  topic?: Figures<'topic'>,
  subscriber?: Figures<'subscriber'>,
): void {
  if (name === 'events.published') add('published', value, bus, topic);
  if (name === 'delivery.events')
    add(tags.status === 'success' ? 'delivered' : 'failed', value, bus, subscriber);
  if (name === 'events.autodropped' || name === 'delayed.dropped') add('dropped', value, bus);
}

interface Reading {
  counts: readonly Count[];
  /** The last known totals of each partition that is away; null if none are known. */
  lost: readonly (PartitionTotals | null)[];
  subscribers: readonly CensusSubscriber[];
  memory: Memory;
}

interface AllFigures {
  bus: Figures<'bus'>;
  topics: Map<string, Figures<'topic'>>;
  subscribers: Map<string, Figures<'subscriber'>>;
}

async function figuresOf({ counts, lost, subscribers: all, memory }: Reading): Promise<AllFigures> {
  const bus = empty('bus');
  for (const totals of lost)
    for (const [name, value] of Object.entries(totals ?? {})) add(name as keyof PartitionTotals, value, bus);
  const topics = new Map<string, Figures<'topic'>>();
  const subscribers = new Map<string, Figures<'subscriber'>>();
  for await (const chunk of chunksOf(counts, COUNTERS_PER_TURN))
    for (const count of chunk) {
      const { name, tags, value } = count;
      const subject = subjectOf(name, tags);
      const topic = subject && 'topic' in subject ? entryOf(topics, subject.topic, 'topic') : undefined;
      const subscriber =
        subject && 'subscriber' in subject
          ? entryOf(subscribers, subject.subscriber, 'subscriber')
          : undefined;
      addTotal(count, bus, topic, subscriber);
      if (name === 'latency.end_to_end.sum') add('latencyMs', value, bus);
      if (name === 'latency.end_to_end.bucket') add('latencies', value, bus);
    }
  for (const { token, events, oldestAgeMs, deadLetters, healthPoints, isPaused } of all) {
    const own = entryOf(subscribers, token, 'subscriber');
    add('queued', events, bus, own);
    own.oldestSeconds = oldestAgeMs / 1000;
    bus.oldestSeconds = Math.max(bus.oldestSeconds, own.oldestSeconds);
    bus.deadLetters += deadLetters;
    if (!isJoinToken(token)) bus.subscribers++;
    if (isPaused) bus.paused++;
    // A subscriber without queued events does not count as failing. It gets no deliveries, and only deliveries raise
    // its health, so it would seem to fail long after its last failure.
    else if (events > 0 && (healthPoints ?? PERFECT_HEALTH) < PERFECT_HEALTH) bus.failing++;
  }
  bus.memory = memory.used;
  return { bus, topics, subscribers };
}

function samplesOf({ bus, topics, subscribers }: AllFigures, limit: number, before?: Standings): Sample[] {
  const sizeOf = ({ delivered, failed, queued }: Figures<'subscriber'>) => delivered + failed + queued;
  const earlier = figuresBefore(before);
  return [
    { figures: inOrder('bus', bus), before: [] },
    ...busiest(subscribers, 'subscriber', limit, sizeOf, earlier.subscriber),
    ...busiest(topics, 'topic', limit, ({ published }) => published, earlier.topic),
  ];
}

/**
 * Returns a function for topics and one for subscribers. Each returns the figures that a topic or subscriber had in the
 * previous sample (`before`), or undefined if there is no previous sample. In a bus with one partition, a topic or
 * subscriber that the previous sample lacks is new, so its figures were 0. In a bus with several, its partition may
 * have been away, so undefined is returned.
 */
function figuresBefore(before: Standings | undefined) {
  const topics = new Map(before?.topics.map(({ name, totalPublished }) => [name, totalPublished]));
  const subscribers = new Map(membersOf(before).map((each) => [each.token, each]));
  const isWhole = before !== undefined && before.partitions === undefined;
  const topic = (name: string): Figures<'topic'> | undefined => {
    const published = topics.get(name) ?? (isWhole ? 0 : undefined);
    return published === undefined ? undefined : { published };
  };
  const subscriber = (token: string): Figures<'subscriber'> | undefined => {
    const last = subscribers.get(token);
    if (!before || !last) return isWhole ? empty('subscriber') : undefined;
    const { totalDelivered: delivered, totalFailed: failed, queued, oldestAtMs } = last;
    return { delivered, failed, queued, oldestSeconds: (before.atMs - (oldestAtMs ?? before.atMs)) / 1000 };
  };
  return { topic, subscriber };
}

function empty<K extends SubjectKind>(kind: K): Figures<K> {
  return Object.fromEntries(STORED[kind].map((name) => [name, 0])) as Figures<K>;
}

function entryOf<K extends SubjectKind>(known: Map<string, Figures<K>>, name: string, kind: K): Figures<K> {
  const entry = known.get(name) ?? empty(kind);
  known.set(name, entry);
  return entry;
}

function add<Name extends string>(
  name: Name,
  value: number,
  ...all: (Partial<Record<Name, number>> | undefined)[]
): void {
  for (const figures of all) if (figures) figures[name] = (figures[name] ?? 0) + value;
}

function busiest<K extends 'topic' | 'subscriber'>(
  all: Map<string, Figures<K>>,
  kind: K,
  limit: number,
  size: (figures: Figures<K>) => number,
  before: (name: string) => Figures<K> | undefined,
): Sample[] {
  return [...all]
    .filter(([, figures]) => size(figures) > 0)
    .sort(([, one], [, other]) => size(other) - size(one))
    .slice(0, limit)
    .map(([name, figures]) => ({
      [kind]: name,
      figures: inOrder(kind, figures),
      before: inOrder(kind, before(name)),
    }));
}

function inOrder<K extends SubjectKind>(kind: K, figures: Figures<K> | undefined): number[] {
  return figures ? STORED[kind].map((name) => Math.round(figures[name as keyof Figures<K>])) : [];
}
