import type { PublicNames } from '../authentication/public_names.ts';
import { chunksOf } from '../chunks.ts';
import { StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { PAUSERS } from '../store/pause.ts';
import { type Count, readCounts, type Tags } from './counter_hash.ts';
import { COUNTER_NAMES, type CounterName, type GaugeName } from './families.ts';
import { type GaugeLimits, type GaugeReading, readGauges } from './gauges.ts';
import { isTotalOfRemoved, subjectOf } from './series.ts';

/** Number of counters that become figures in one turn of the event loop. 2,000 take about 1 ms. */
const COUNTERS_PER_TURN = 2000;

interface GaugeFigure {
  kind: 'gauge';
  name: GaugeName;
  value: number;
  tags: Tags;
}

/** A counter of one partition. The total of the bus is the sum over all partitions. */
export interface CounterFigure {
  kind: 'counter';
  name: CounterName;
  value: number;
  tags: Tags;
  /** The field of the counter in Redis. It identifies the counter; `tags` do not, because public names can change. */
  field: Buffer;
  partition: Partition;
}

/** A figure that is safe to show outside the bus: its tags have public names in place of tokens. */
export type Figure = GaugeFigure | CounterFigure;

export interface FigureParts {
  partitions: Partitions;
  limits: GaugeLimits;
  publicNames: PublicNames;
  log: Log;
}

/**
 * Returns all figures of the partitions that are not away. Leaves out counters that this release does not know: one of
 * their tags may be a token, which would be shown in place of a public name. Throws StorageUnavailable if all
 * partitions are away.
 */
export async function collectFigures(parts: FigureParts): Promise<Figure[]> {
  const { partitions, limits, publicNames, log } = parts;
  const [read, reading] = await Promise.all([readCounts(partitions, log), readGauges(partitions, limits)]);
  const away = [...new Set([...read.away, ...reading.away])];
  // When a topic or subscriber is removed, its counts are added to a total in its partition (`isTotalOfRemoved`).
  // Prometheus gets only the sum of these totals. If a partition is away, the sum would fall, and Prometheus would take
  // that for a restart of the counter. So the totals are left out while a partition is away.
  const isWhole = (count: Count) => away.length === 0 || !isTotalOfRemoved(count.name, count.tags);
  const counts = read.counts.filter((count) => COUNTER_NAMES.has(count.name) && isWhole(count));
  const tokens = new Set(reading.subscribers.map(({ token }) => token));
  for await (const chunk of chunksOf(counts, COUNTERS_PER_TURN))
    for (const token of chunk.map(subscriberOf)) if (token !== undefined) tokens.add(token);
  const publicName = await publicNames.of(tokens).catch(noNamesIfAway);
  const figures: Figure[] = [];
  for await (const chunk of chunksOf(counts, COUNTERS_PER_TURN))
    figures.push(...chunk.flatMap((count) => counterFigure(count, publicName) ?? []));
  figures.push(...partitionFigures(partitions, away));
  for (const figure of gaugeFigures(reading, publicName)) figures.push(figure);
  return figures;
}

/**
 * Returns the public name of a token, or undefined if it is not known. Figures of a token without a known public name
 * are not shown, because the token may be a credential.
 */
type PublicName = (token: string) => string | undefined;

/**
 * If the control partition, which has the public names, is away, returns a function that knows no public name. Throws
 * any other error.
 */
function noNamesIfAway(error: unknown): PublicName {
  if (!(error instanceof StorageUnavailable)) throw error;
  return () => undefined;
}

function partitionFigures({ all }: Partitions, away: readonly Partition[]): GaugeFigure[] {
  if (all.length === 1) return [];
  return all.map((partition) => ({
    kind: 'gauge',
    name: 'partition.up',
    value: away.includes(partition) ? 0 : 1,
    tags: { partition: String(partition.index) },
  }));
}

function subscriberOf({ name, tags }: Count): string | undefined {
  const subject = subjectOf(name, tags);
  return subject && 'subscriber' in subject ? subject.subscriber : undefined;
}

function counterFigure(count: Count, publicName: PublicName): CounterFigure | undefined {
  const figure = { kind: 'counter', ...count, name: count.name as CounterName } as const;
  const token = subscriberOf(count);
  if (token === undefined) return figure;
  const queue = publicName(token);
  return queue === undefined ? undefined : { ...figure, tags: { ...count.tags, queue } };
}

function gaugeFigures(reading: GaugeReading, publicName: PublicName): GaugeFigure[] {
  const figures: GaugeFigure[] = [];
  const gauge = (name: GaugeName, value: number | undefined, tags: Tags = {}) => {
    if (value !== undefined) figures.push({ kind: 'gauge', name, value, tags });
  };
  for (const each of reading.subscribers) {
    const { token, batches, events, bytes, oldestAgeMs, deadLetters, healthPoints, openKeys, pausedBy } =
      each;
    const subscriber = publicName(token);
    if (subscriber === undefined) continue;
    const tags = { subscriber };
    gauge('subscriber.queue.batches', batches, tags);
    gauge('subscriber.queue.events', events, tags);
    gauge('subscriber.queue.bytes', bytes, tags);
    gauge('subscriber.queue.oldest_ms', oldestAgeMs, tags);
    gauge('subscriber.dead_letters.batches', deadLetters.batches, tags);
    gauge('subscriber.dead_letters.events', deadLetters.events, tags);
    gauge('subscriber.dead_letters.bytes', deadLetters.bytes, tags);
    gauge('joins.open', openKeys, tags);
    gauge('subscriber.health_points', healthPoints, tags);
    if (pausedBy !== null) gauge('subscriber.paused', 1, tags);
  }
  for (const by of PAUSERS) {
    const paused = reading.subscribers.filter(({ pausedBy }) => pausedBy === by);
    gauge('subscribers.paused', paused.length, { by });
  }
  for (const { queue, due, ...jobs } of reading.queues) {
    for (const [status, count] of Object.entries(jobs)) gauge('jobs.count', count, { queue, status });
    gauge('jobs.due', due, { queue });
  }
  for (const [topic, events] of reading.delayed) gauge('delayed.events', events, { topic });
  for (const [status, count] of Object.entries(reading.triggers)) gauge('triggers.count', count, { status });
  for (const [partition, bytes] of reading.outboxes) gauge('outbox.bytes', bytes, { partition });
  const { memory, cpuSeconds } = reading;
  gauge('bus.begun_at', reading.begunAtMs);
  gauge('workers.count', reading.workers);
  for (const [kind, count] of Object.entries(reading.deliveryWorkers))
    gauge('delivery.workers', count, { kind });
  gauge('redis.bytes_used', memory.used);
  gauge('redis.max_mem', memory.max);
  if (memory.max > 0) {
    gauge('redis.low_mark', memory.lowMark);
    gauge('redis.high_mark', memory.highMark);
  }
  gauge('redis.may_evict', Number(memory.wrongPolicy !== undefined));
  gauge('redis.replicas', reading.replicas);
  gauge('redis.used_cpu_sys', cpuSeconds.system);
  gauge('redis.used_cpu_user', cpuSeconds.user);
  return figures;
}
