import type { Figure } from './figures.ts';

/** How figures of one name look to Prometheus. */
export interface Family {
  name: string;
  help: string;
  type: 'counter' | 'gauge';
  /** The figures' tags that are shown, each with the name of its label. */
  labels: Readonly<Record<string, string>>;
  /** How many of the figure's unit make one base unit (a second, a byte). */
  perUnit: number;
}

const MS = 1000;

const SUBSCRIBER_QUEUE = { queue: 'subscriber' };
const RESULT = { queue: 'subscriber', status: 'status' };
const DEATH = { queue: 'subscriber', reason: 'reason' };
const SUBSCRIBER = { subscriber: 'subscriber' };

type Row = [name: string, help: string, labels?: Record<string, string>, perUnit?: number];

const counter = ([name, help, labels = {}, perUnit = 1]: Row): Family => ({
  name: `routemaster_${name}_total`,
  help,
  type: 'counter',
  labels,
  perUnit,
});

const gauge = ([name, help, labels = {}, perUnit = 1]: Row): Family => ({
  name: `routemaster_${name}`,
  help,
  type: 'gauge',
  labels,
  perUnit,
});

type InHistogram = `${'delivery.duration' | 'latency.end_to_end'}.${'bucket' | 'sum'}`;

/** Every figure but those that make up histograms. */
export const FAMILIES: Readonly<Record<Exclude<Figure['name'], InHistogram>, Family>> = {
  'events.published': counter(['events_published', 'Events accepted.', { topic: 'topic' }]),
  'events.bytes': counter([
    'events_published_bytes',
    'Size of the accepted events, as JSON.',
    { topic: 'topic' },
  ]),
  'events.added': counter(['events_added', 'Events put in the queue of a subscriber.', SUBSCRIBER_QUEUE]),
  'events.removed': counter([
    'events_removed',
    'Events that left the queue of a subscriber, in whatever way.',
    SUBSCRIBER_QUEUE,
  ]),
  'events.autodropped': counter([
    'events_autodropped',
    'Events dropped because memory ran short, from queues and dead letters.',
    SUBSCRIBER_QUEUE,
  ]),
  'delivery.events': counter(['delivery_events', 'Events in attempted deliveries.', RESULT]),
  'delivery.batches': counter(['delivery_batches', 'Attempted deliveries.', RESULT]),
  'delivery.time': counter(['delivery_seconds', 'Time taken by deliveries.', RESULT, MS]),
  'delivery.time2': counter([
    'delivery_seconds_squared',
    'Sum of the squares of the times taken by deliveries.',
    RESULT,
    MS * MS,
  ]),
  'latency.batches.count': counter(['batches_attempted', 'Batches tried at least once.', SUBSCRIBER_QUEUE]),
  'latency.batches.first_attempt': counter([
    'batches_first_attempt_latency_seconds',
    'Time from the creation of batches to their first attempt.',
    SUBSCRIBER_QUEUE,
    MS,
  ]),
  'latency.batches.last_attempt': counter([
    'batches_last_attempt_latency_seconds',
    'Time from the creation of batches to the end of the attempt that succeeded.',
    SUBSCRIBER_QUEUE,
    MS,
  ]),
  'jobs.scrubbed': counter([
    'jobs_scrubbed',
    'Jobs of dead workers that were given back.',
    { queue: 'queue' },
  ]),
  'workers.scrubbed': counter(['workers_scrubbed', 'Dead workers that were forgotten.']),
  'authentication.failed': counter([
    'authentication_failures',
    'Requests with wrong credentials.',
    { reason: 'reason' },
  ]),
  'authentication.slowed': counter([
    'authentication_slowed',
    'Those of them that were refused with 429, as their address had failed too often.',
  ]),
  'sweep.findings': counter(['sweep_findings', 'Things that sweeps found wrong.', { kind: 'kind' }]),
  process: counter(['processes', 'Starts and stops of processes.', { status: 'status', type: 'type' }]),
  'events.dead_lettered': counter(['events_dead_lettered', 'Events that became dead letters.', DEATH]),
  'batches.dead_lettered': counter(['batches_dead_lettered', 'Batches that became dead letters.', DEATH]),
  'subscriber.queue.batches': gauge(['subscriber_queue_batches', 'Batches queued.', SUBSCRIBER]),
  'subscriber.queue.events': gauge(['subscriber_queue_events', 'Events queued.', SUBSCRIBER]),
  'subscriber.queue.oldest_ms': gauge([
    'subscriber_queue_oldest_age_seconds',
    'Age of the oldest queued batch; 0 if there is none.',
    SUBSCRIBER,
    MS,
  ]),
  'subscriber.dead_letters.batches': gauge([
    'subscriber_dead_letters_batches',
    'Batches that are dead letters.',
    SUBSCRIBER,
  ]),
  'subscriber.dead_letters.events': gauge([
    'subscriber_dead_letters_events',
    'Events in dead letters.',
    SUBSCRIBER,
  ]),
  'subscriber.health_points': gauge([
    'subscriber_health_points',
    'Health of a subscriber: 0 to 100, which is perfect.',
    SUBSCRIBER,
  ]),
  'jobs.count': gauge(['jobs', 'Jobs by queue and state.', { queue: 'queue', status: 'state' }]),
  'jobs.due': gauge(['jobs_due', 'Scheduled jobs of which the deadline has come.', { queue: 'queue' }]),
  'workers.count': gauge(['workers', 'Workers that are known.']),
  'redis.bytes_used': gauge([
    'redis_memory_used_bytes',
    'Memory that Redis uses, as counted against its limit.',
  ]),
  'redis.max_mem': gauge(['redis_memory_max_bytes', 'Memory that Redis may use; 0 if there is no limit.']),
  'redis.low_mark': gauge(['redis_memory_low_mark_bytes', 'Autodrop goes on down to this.']),
  'redis.high_mark': gauge(['redis_memory_high_mark_bytes', 'Autodrop starts above this.']),
  'redis.used_cpu_sys': counter(['redis_cpu_system_seconds', 'CPU time of Redis in the kernel.']),
  'redis.used_cpu_user': counter(['redis_cpu_user_seconds', 'CPU time of Redis in user space.']),
};
