import { type Figures, sumOf } from './figures.ts';
import { number } from './tables.ts';

/**
 * The metrics of a bus at one moment. `atMs` is the moment by a monotonic clock, so the rates between two readings stay
 * right even if somebody sets the system clock.
 */
export interface Reading {
  atMs: number;
  figures: Figures;
}

export interface SubscriberLine {
  subscriber: string;
  queued: number;
  oldest_seconds: number;
  delivered: number;
  failed: number;
  /**
   * The subscriber's health, 0 to 100. Null if the subscriber has left the bus, but some of its data is still stored.
   */
  health: number | null;
  dead_letters: number;
  /**
   * About how many bytes of Redis the subscriber's queue and dead letters take. Null if the bus is of an earlier
   * release, which does not report this.
   */
  bytes: number | null;
  paused: boolean;
}

/**
 * How many workers deliver. `workers` does not include the spare workers, which deliver only while other workers hang.
 */
interface WorkerCounts {
  workers: number;
  spare_workers: number;
}

export interface TopicLine {
  topic: string;
  published: number;
  published_rate: number;
}

/** Number of topics in a report. */
export const BUSIEST_TOPICS = 5;

/** The topic under which the bus counts the events of all removed topics. */
const REMOVED = '(removed)';

/** The report that `rtm top` shows. Rates are per second. A rate is null while it is not known. */
export interface BusReport extends WorkerCounts {
  published: number;
  published_rate: number | null;
  delivered: number;
  delivered_rate: number | null;
  /** Number of failed deliveries. */
  failed: number;
  failed_rate: number | null;
  queued: number;
  oldest_seconds: number;
  dead_letters: number;
  paused: number;
  /** The partitions that are away. The data in them is missing from the figures. */
  partitions_away: number[];
  memory_bytes: number;
  /** The memory limit of Redis; 0 if it has none. */
  memory_max_bytes: number;
  /** The topics that get most events a second, the busiest first. Empty while rates are not known. */
  topics: TopicLine[];
  subscribers: (SubscriberLine & { delivered_rate: number | null; failed_rate: number | null })[];
}

/**
 * Returns a report of the bus. A rate is the growth of a counter since `earlier`, divided by the time. The subscribers
 * with the lowest health come first. Of subscribers with equal health, those whose events have waited longest come
 * first.
 */
export function reportOf(now: Reading, earlier?: Reading): BusReport {
  const [lines, before] = [linesOf(now.figures), earlier && linesOf(earlier.figures)];
  const seconds = earlier ? (now.atMs - earlier.atMs) / 1000 : 0;
  // The bus leaves counters that are 0 out of its metrics. So a counter that is missing in `earlier` was 0. If there is
  // no `earlier`, the rates are unknown.
  const rate = (value: number, was = 0) => (earlier ? Math.max(0, value - was) / seconds : null);
  const [totals, were] = [totalsOf(now.figures), earlier && totalsOf(earlier.figures)];
  const subscribers = [...lines.values()].map((line) => {
    const was = before?.get(line.subscriber);
    const rates = {
      delivered_rate: rate(line.delivered, was?.delivered),
      failed_rate: rate(line.failed, was?.failed),
    };
    return { ...line, ...rates };
  });
  const publishedBefore = earlier && publishedOf(earlier.figures);
  const topics = [...publishedOf(now.figures)].flatMap(([topic, published]): TopicLine[] => {
    const published_rate = rate(published, publishedBefore?.get(topic));
    return published_rate ? [{ topic, published, published_rate }] : [];
  });
  return {
    ...totals,
    published_rate: rate(totals.published, were?.published),
    delivered_rate: rate(totals.delivered, were?.delivered),
    failed_rate: rate(totals.failed, were?.failed),
    queued: sum(subscribers.map(({ queued }) => queued)),
    oldest_seconds: Math.max(0, ...subscribers.map((each) => each.oldest_seconds)),
    dead_letters: sum(subscribers.map((each) => each.dead_letters)),
    topics: topics.sort((a, b) => b.published_rate - a.published_rate).slice(0, BUSIEST_TOPICS),
    subscribers: subscribers.sort(byUrgency),
  };
}

/**
 * Returns how many workers deliver. A bus of an earlier release reports only the number of all its workers, which
 * becomes `workers`.
 */
export function workersOf(figures: Figures): WorkerCounts {
  if (!figures.has('delivery_workers')) return { workers: sumOf(figures, 'workers'), spare_workers: 0 };
  return {
    workers: sumOf(figures, 'delivery_workers', { kind: 'regular' }),
    spare_workers: sumOf(figures, 'delivery_workers', { kind: 'spare' }),
  };
}

/** Returns the numbers of workers as text, such as `64 (+22 spare)`. */
export function workersText({ workers, spare_workers }: WorkerCounts): string {
  return `${number(workers)}${spare_workers > 0 ? ` (+${number(spare_workers)} spare)` : ''}`;
}

/** Returns the partitions that are away. */
export function partitionsAwayOf(figures: Figures): number[] {
  const away = (figures.get('partition_up') ?? []).filter(({ value }) => value === 0);
  return away.map(({ labels }) => Number(labels.partition)).sort((one, other) => one - other);
}

export function partitionsAwayText(partitions: readonly number[]): string {
  const names = partitions.join(', ');
  return partitions.length === 1 ? `partition ${names} is away` : `partitions ${names} are away`;
}

function totalsOf(figures: Figures) {
  return {
    published: sumOf(figures, 'events_published_total'),
    delivered: sumOf(figures, 'delivery_events_total', { status: 'success' }),
    failed: sumOf(figures, 'delivery_batches_total', { status: 'failure' }),
    paused: sumOf(figures, 'subscribers_paused'),
    ...workersOf(figures),
    partitions_away: partitionsAwayOf(figures),
    memory_bytes: sumOf(figures, 'redis_memory_used_bytes'),
    memory_max_bytes: sumOf(figures, 'redis_memory_max_bytes'),
  };
}

/** Returns, for each topic that exists, the number of events ever published to it. */
function publishedOf(figures: Figures): Map<string, number> {
  const all = (figures.get('events_published_total') ?? []).map(
    ({ labels, value }) => [labels.topic ?? '', value] as const,
  );
  return new Map(all.filter(([topic]) => topic !== REMOVED));
}

function linesOf(figures: Figures): Map<string, SubscriberLine> {
  const lines = new Map<string, SubscriberLine>();
  const add = (name: string, set: (line: SubscriberLine, value: number) => void, status?: string) => {
    for (const { labels, value } of figures.get(name) ?? []) {
      const { subscriber = '' } = labels;
      if (status !== undefined && labels.status !== status) continue;
      const line = lines.get(subscriber) ?? nothing(subscriber);
      lines.set(subscriber, line);
      set(line, value);
    }
  };
  add('subscriber_queue_events', (line, value) => (line.queued = value));
  add('subscriber_queue_oldest_age_seconds', (line, value) => (line.oldest_seconds = value));
  add('subscriber_health_points', (line, value) => (line.health = value));
  add('subscriber_paused', (line, value) => (line.paused = value > 0));
  add('subscriber_dead_letters_batches', (line, value) => (line.dead_letters = value));
  for (const name of ['subscriber_queue_bytes', 'subscriber_dead_letters_bytes'])
    add(name, (line, value) => (line.bytes = (line.bytes ?? 0) + value));
  const known = new Set(lines.keys());
  add('delivery_events_total', (line, value) => (line.delivered = value), 'success');
  add('delivery_batches_total', (line, value) => (line.failed = value), 'failure');
  // Leave out the subscribers that only the delivery counters mention: the bus stores nothing else about them any more.
  for (const subscriber of lines.keys()) if (!known.has(subscriber)) lines.delete(subscriber);
  return lines;
}

function nothing(subscriber: string): SubscriberLine {
  const none = { queued: 0, oldest_seconds: 0, delivered: 0, failed: 0, dead_letters: 0 };
  return { subscriber, ...none, bytes: null, paused: false, health: null };
}

function byUrgency(a: SubscriberLine, b: SubscriberLine): number {
  return (
    (a.health ?? 100) - (b.health ?? 100) || b.oldest_seconds - a.oldest_seconds || b.delivered - a.delivered
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Returns the state of a subscriber in the words of the API and the console. */
export function stateOf(health: number, queued: number, isPaused: boolean): string {
  if (isPaused) return 'paused';
  if (health === 100) return 'healthy';
  return queued > 0 ? 'failing' : 'recovering';
}
