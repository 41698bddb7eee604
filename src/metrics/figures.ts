import type { PublicNames } from '../authentication/public_names.ts';
import type { Log } from '../log.ts';
import type { MemoryLimits } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Tags } from './counter_hash.ts';
import { COUNTER_NAMES, type Count, type CounterName, readCounts } from './counter_hash.ts';
import { type GaugeReading, readGauges } from './gauges.ts';

export interface GaugeFigure {
  kind: 'gauge';
  name: GaugeName;
  value: number;
  tags: Tags;
}

export interface CounterFigure {
  kind: 'counter';
  name: CounterName;
  /** The total since the bus was installed. */
  value: number;
  tags: Tags;
  /** Identifies the counter. Tags do not: a client's public name can change. */
  field: Buffer;
}

/** A figure that may leave the bus: its tags hold no credentials. */
export type Figure = GaugeFigure | CounterFigure;

export type GaugeName =
  | `subscriber.queue.${'batches' | 'events' | 'oldest_ms'}`
  | `subscriber.dead_letters.${'batches' | 'events'}`
  | 'subscriber.health_points'
  | `jobs.${'count' | 'due'}`
  | 'workers.count'
  | `redis.${'bytes_used' | 'max_mem' | 'low_mark' | 'high_mark' | 'used_cpu_sys' | 'used_cpu_user'}`;

export interface FigureParts {
  store: Partition;
  limits: MemoryLimits;
  publicNames: PublicNames;
  log: Log;
}

const KNOWN: ReadonlySet<string> = new Set(COUNTER_NAMES);

/**
 * All figures of the whole bus; counters as far as they are flushed. Throws as Partition does.
 * Counters that this release does not know are left out, as their tags may hold credentials.
 */
export async function collectFigures({ store, limits, publicNames, log }: FigureParts): Promise<Figure[]> {
  const [all, reading] = await Promise.all([readCounts(store, log), readGauges(store, limits)]);
  const counts = all.filter(({ name }) => KNOWN.has(name));
  const publicName = await publicNames.of([
    ...counts.flatMap((count) => subscriberOf(count) ?? []),
    ...reading.subscribers.map(({ token }) => token),
  ]);
  return [...counts.map((count) => counterFigure(count, publicName)), ...gaugeFigures(reading, publicName)];
}

/** The token of the subscriber that a counter is about, if it is about one. */
function subscriberOf({ name, tags }: Count): string | undefined {
  return name === 'jobs.scrubbed' ? undefined : tags.queue;
}

function counterFigure(count: Count, publicName: (token: string) => string): CounterFigure {
  const token = subscriberOf(count);
  const tags = token === undefined ? count.tags : { ...count.tags, queue: publicName(token) };
  return { kind: 'counter', name: count.name as CounterName, value: count.value, tags, field: count.field };
}

function gaugeFigures(reading: GaugeReading, publicName: (token: string) => string): GaugeFigure[] {
  const figures: GaugeFigure[] = [];
  const gauge = (name: GaugeName, value: number, tags: Tags = {}) => {
    figures.push({ kind: 'gauge', name, value, tags });
  };
  for (const { token, batches, events, oldestMs, deadLetters, healthPoints } of reading.subscribers) {
    const tags = { subscriber: publicName(token) };
    gauge('subscriber.queue.batches', batches, tags);
    gauge('subscriber.queue.events', events, tags);
    gauge('subscriber.queue.oldest_ms', oldestMs, tags);
    gauge('subscriber.dead_letters.batches', deadLetters.batches, tags);
    gauge('subscriber.dead_letters.events', deadLetters.events, tags);
    if (healthPoints !== undefined) gauge('subscriber.health_points', healthPoints, tags);
  }
  for (const { queue, instant, scheduled, due, pending, waiting } of reading.queues) {
    gauge('jobs.count', instant, { queue, status: 'instant' });
    gauge('jobs.count', scheduled, { queue, status: 'scheduled' });
    gauge('jobs.count', pending, { queue, status: 'pending' });
    gauge('jobs.count', waiting, { queue, status: 'waiting' });
    gauge('jobs.due', due, { queue });
  }
  const { memory, cpuSeconds } = reading;
  gauge('workers.count', reading.workers);
  gauge('redis.bytes_used', memory.used);
  gauge('redis.max_mem', memory.max);
  if (memory.max > 0) {
    gauge('redis.low_mark', memory.lowMark);
    gauge('redis.high_mark', memory.highMark);
  }
  gauge('redis.used_cpu_sys', cpuSeconds.system);
  gauge('redis.used_cpu_user', cpuSeconds.user);
  return figures;
}
