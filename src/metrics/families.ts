import { HISTOGRAMS, type HistogramName } from './histogram.ts';

/** A metric as Prometheus shows it. It is made of all counters or gauges with one name, whose tags become labels. */
export interface Family {
  name: string;
  help: string;
  type: 'counter' | 'gauge';
  /** For each tag that Prometheus shows, the name of its label there. Other tags are left out. */
  labels: Readonly<Record<string, string>>;
  /** The figure is divided by this number for Prometheus: 1000 turns ms into seconds. */
  perUnit: number;
}

const MS = 1000;

const TOPIC = { topic: 'topic' };
const QUEUE = { queue: 'subscriber' };
const RESULT = { queue: 'subscriber', status: 'status' };
const DEATH = { queue: 'subscriber', reason: 'reason' };
const SUBSCRIBER = { subscriber: 'subscriber' };
const PARTITION = { partition: 'partition' };
const STATE = { status: 'state' };

type Row = [name: string, help: string, labels?: Record<string, string>, perUnit?: number];

const family =
  (type: Family['type'], suffix: string) =>
  (...[name, help, labels = {}, perUnit = 1]: Row): Family => ({
    name: `routemaster_${name}${suffix}`,
    help,
    type,
    labels,
    perUnit,
  });
const counter = family('counter', '_total');
const gauge = family('gauge', '');

/**
 * Maps each counter, except those of HISTOGRAMS, to its metric in Prometheus.
 *
 * - Counters of durations count ms.
 * - The tag `queue` is a subscriber's token, except in `jobs.scrubbed`. There it is a queue of jobs: `main` (jobs that
 *   deliver batches) or `aux` (all others).
 * - Names and tags that exist must not change, because Redis stores the totals under them, some since the Ruby
 *   Routemaster.
 */
const COUNTERS = {
  'events.published': counter('events_published', 'Events accepted.', TOPIC),
  'events.bytes': counter('events_published_bytes', 'Size of the accepted events, as JSON.', TOPIC),
  'events.added': counter('events_added', 'Events put in the queue of a subscriber.', QUEUE),
  'events.removed': counter('events_removed', 'Events that left the queue of a subscriber.', QUEUE),
  'events.autodropped': counter('events_autodropped', 'Events dropped because memory ran short.', QUEUE),
  'delayed.dropped': counter(
    'events_delayed_dropped',
    'Delayed events dropped because memory ran short.',
    TOPIC,
  ),
  'delivery.events': counter('delivery_events', 'Events in attempted deliveries.', RESULT),
  'delivery.batches': counter('delivery_batches', 'Attempted deliveries.', RESULT),
  'delivery.time': counter('delivery_seconds', 'Time taken by deliveries.', RESULT, MS),
  'delivery.time2': counter('delivery_seconds_squared', 'Sum of squared delivery times.', RESULT, MS * MS),
  'latency.batches.count': counter('batches_attempted', 'Batches tried at least once.', QUEUE),
  'latency.batches.first_attempt': counter(
    'batches_first_attempt_latency_seconds',
    'Time from the creation of batches to their first attempt.',
    QUEUE,
    MS,
  ),
  'latency.batches.last_attempt': counter(
    'batches_last_attempt_latency_seconds',
    'Time from the creation of batches to the end of the attempt that succeeded.',
    QUEUE,
    MS,
  ),
  'jobs.scrubbed': counter('jobs_scrubbed', 'Jobs of dead workers that were given back.', { queue: 'queue' }),
  'workers.scrubbed': counter('workers_scrubbed', 'Dead workers that were removed.'),
  'authentication.failed': counter('authentication_failures', 'Requests with wrong credentials.', {
    reason: 'reason',
  }),
  'authentication.slowed': counter('authentication_slowed', 'Failed authentications answered with 429.'),
  'calls.refused': counter('calls_refused', 'Calls refused because of the state or the limits of the bus.', {
    code: 'code',
  }),
  'sweep.findings': counter('sweep_findings', 'Inconsistencies that sweeps found.', { kind: 'kind' }),
  process: counter('processes', 'Starts and stops of processes.', { status: 'status', type: 'type' }),
  'events.dead_lettered': counter('events_dead_lettered', 'Events that became dead letters.', DEATH),
  'joins.completed': counter('joins_completed', 'Keys that a join found complete.', QUEUE),
  'joins.expired': counter('joins_expired', 'Keys that were not complete in time.', QUEUE),
  'joins.unkeyed': counter('joins_unkeyed', 'Events without a key that a join could count.', QUEUE),
  'batches.dead_lettered': counter('batches_dead_lettered', 'Batches that became dead letters.', DEATH),
  'triggers.fired': counter('triggers_fired', 'Due times of triggers that fired.'),
  'triggers.missed': counter('triggers_missed', 'Due times of triggers that did not fire.'),
};

const GAUGES = {
  'subscriber.queue.batches': gauge('subscriber_queue_batches', 'Batches queued.', SUBSCRIBER),
  'subscriber.queue.events': gauge('subscriber_queue_events', 'Events queued.', SUBSCRIBER),
  'subscriber.queue.bytes': gauge(
    'subscriber_queue_bytes',
    'Memory of Redis that the queued batches take, about.',
    SUBSCRIBER,
  ),
  'subscriber.queue.oldest_ms': gauge(
    'subscriber_queue_oldest_age_seconds',
    'Age of the oldest queued batch; 0 if there is none.',
    SUBSCRIBER,
    MS,
  ),
  'subscriber.dead_letters.batches': gauge('subscriber_dead_letters_batches', 'Dead letters.', SUBSCRIBER),
  'subscriber.dead_letters.events': gauge(
    'subscriber_dead_letters_events',
    'Events in dead letters.',
    SUBSCRIBER,
  ),
  'subscriber.dead_letters.bytes': gauge(
    'subscriber_dead_letters_bytes',
    'Memory of Redis that the dead letters take, about.',
    SUBSCRIBER,
  ),
  'subscriber.health_points': gauge('subscriber_health_points', 'Health: 0 to 100 (perfect).', SUBSCRIBER),
  'subscriber.paused': gauge('subscriber_paused', '1 while the subscriber is paused.', SUBSCRIBER),
  'delayed.events': gauge('events_delayed', 'Events that wait for their time.', TOPIC),
  'subscribers.paused': gauge('subscribers_paused', 'Subscribers that are paused, by whom.', { by: 'by' }),
  'joins.open': gauge('joins_open', 'Open keys of a join.', SUBSCRIBER),
  'jobs.count': gauge('jobs', 'Jobs by queue and state.', { queue: 'queue', ...STATE }),
  'jobs.due': gauge('jobs_due', 'Scheduled jobs that are due.', { queue: 'queue' }),
  'triggers.count': gauge('triggers', 'Triggers: `waiting` for their next time, or `idle`.', STATE),
  'partition.up': gauge(
    'partition_up',
    'Whether a partition can be reached (1 or 0), if there are several.',
    PARTITION,
  ),
  'outbox.bytes': gauge(
    'outbox_bytes',
    'Bytes on their way to any partition, or set aside for this one, if there are several.',
    PARTITION,
  ),
  'workers.count': gauge('workers', 'Known workers: those that deliver, and those of maintenance.'),
  'delivery.workers': gauge(
    'delivery_workers',
    'Workers that deliver: `regular`, or `spare`, which deliver only while the regular ones hang.',
    { kind: 'kind' },
  ),
  'bus.begun_at': gauge(
    'bus_begun_timestamp_seconds',
    'When the bus began: with an empty Redis, or with that of a Ruby Routemaster.',
    {},
    MS,
  ),
  'redis.bytes_used': gauge('redis_memory_used_bytes', 'Memory that counts against the limit of Redis.'),
  'redis.max_mem': gauge('redis_memory_max_bytes', 'Memory limit of Redis; 0 if there is none.'),
  'redis.low_mark': gauge('redis_memory_low_mark_bytes', 'Autodrop stops at this.'),
  'redis.high_mark': gauge('redis_memory_high_mark_bytes', 'Autodrop starts above this.'),
  'redis.may_evict': gauge(
    'redis_may_evict',
    '1 if the maxmemory-policy of a Redis lets it delete events, otherwise 0.',
  ),
  'redis.replicas': gauge(
    'redis_replicas',
    'Replicas that follow Redis; on a cluster, the master with the fewest.',
  ),
  'redis.used_cpu_sys': counter('redis_cpu_system_seconds', 'CPU time of Redis in the kernel.'),
  'redis.used_cpu_user': counter('redis_cpu_user_seconds', 'CPU time of Redis in user space.'),
};

export type CounterName = keyof typeof COUNTERS | `${HistogramName}.${'bucket' | 'sum'}`;
export type GaugeName = keyof typeof GAUGES;

export const COUNTER_NAMES: ReadonlySet<string> = new Set([
  ...Object.keys(COUNTERS),
  ...Object.keys(HISTOGRAMS).flatMap((name) => [`${name}.bucket`, `${name}.sum`]),
]);

/** All families except those of histograms, by the name of their counter or gauge. */
export const FAMILIES: Readonly<Record<string, Family>> = { ...COUNTERS, ...GAUGES };
