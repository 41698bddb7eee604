import { LRUCache } from 'lru-cache';
import type { Tags } from './counter_field.ts';
import type { Counters } from './counters.ts';
import { bucketTags, DELIVERY_SECONDS, LATENCY_SECONDS } from './histogram.ts';

/** Maximum topics or queues whose tags are remembered. */
const MAX_NAMES = 10_000;

/** Returns the same tags for a name each time: counters find tags that they have seen at once. */
function remembered(make: (name: string) => Tags): (name: string) => Tags {
  const cache = new LRUCache<string, Tags>({ max: MAX_NAMES, memoMethod: make });
  return (name) => cache.memo(name);
}

export interface Attempt {
  /** The subscriber's token. */
  queue: string;
  /** 1 for the first. */
  attempt: number;
  /** From the creation of the batch to this attempt, by Redis's clock. */
  latencyMs: number;
}

export interface DeliveryResult {
  /** The subscriber's token. */
  queue: string;
  status: 'success' | 'failure';
  events: number;
  /** How long this attempt took. */
  durationMs: number;
  /** From the creation of the batch to the end of this attempt. */
  latencyMs: number;
}

const NO_TAGS: Tags = {};

/** The tags of deliveries that ended alike. */
interface EndTags {
  ofQueue: (queue: string) => Tags;
  ofAll: Tags;
  bucket: (ms: number) => Tags;
}

function endTags(status: string): EndTags {
  return {
    ofQueue: remembered((queue) => ({ queue, status })),
    ofAll: { status },
    bucket: bucketTags(DELIVERY_SECONDS, { status }),
  };
}

/** What happens in the bus, put into counters. Asks nobody, and never throws. */
export class Recorder {
  readonly #counters: Pick<Counters, 'increment'>;
  readonly #topicTags = remembered((topic) => ({ topic }));
  readonly #queueTags = remembered((queue) => ({ queue }));
  readonly #endTags: Record<DeliveryResult['status'], EndTags> = {
    success: endTags('success'),
    failure: endTags('failure'),
  };
  readonly #latencyTags = bucketTags(LATENCY_SECONDS);

  constructor(counters: Pick<Counters, 'increment'>) {
    this.#counters = counters;
  }

  /** Events were accepted; `bytes` of them packed. */
  published(topic: string, events: number, bytes: number): void {
    const tags = this.#topicTags(topic);
    this.#counters.increment('events.published', tags, events);
    this.#counters.increment('events.bytes', tags, bytes);
  }

  /** Events were put in a subscriber's queue. */
  added(queue: string, events: number): void {
    this.#counters.increment('events.added', this.#queueTags(queue), events);
  }

  /** Events left a subscriber's queue, for whatever reason. */
  removed(queue: string, events: number): void {
    this.#counters.increment('events.removed', this.#queueTags(queue), events);
  }

  /** Events were dropped because memory ran short, from a queue or dead letters. */
  autodropped(queue: string, events: number): void {
    this.#counters.increment('events.autodropped', this.#queueTags(queue), events);
  }

  /** A batch of a subscriber became a dead letter. */
  buried(queue: string, reason: string, events: number): void {
    const tags = { queue, reason };
    this.#counters.increment('events.dead_lettered', tags, events);
    this.#counters.increment('batches.dead_lettered', tags);
  }

  /** A delivery begins. */
  attempted({ queue, attempt, latencyMs }: Attempt): void {
    if (attempt !== 1) return;
    const tags = this.#queueTags(queue);
    this.#counters.increment('latency.batches.count', tags);
    this.#counters.increment('latency.batches.first_attempt', tags, latencyMs);
  }

  /** A delivery has ended. */
  delivered({ queue, status, events, durationMs, latencyMs }: DeliveryResult): void {
    const counters = this.#counters;
    const { ofQueue, ofAll, bucket } = this.#endTags[status];
    const tags = ofQueue(queue);
    counters.increment('delivery.events', tags, events);
    counters.increment('delivery.batches', tags);
    counters.increment('delivery.time', tags, durationMs);
    counters.increment('delivery.time2', tags, durationMs ** 2);
    counters.increment('delivery.duration.bucket', bucket(durationMs));
    counters.increment('delivery.duration.sum', ofAll, durationMs);
    if (status !== 'success') return;
    counters.increment('latency.batches.last_attempt', this.#queueTags(queue), latencyMs);
    counters.increment('latency.end_to_end.bucket', this.#latencyTags(latencyMs));
    counters.increment('latency.end_to_end.sum', NO_TAGS, latencyMs);
  }

  /** Dead workers were forgotten, and their jobs given back. */
  scrubbed({ main, aux, workers }: { main: number; aux: number; workers: number }): void {
    this.#counters.increment('jobs.scrubbed', { queue: 'main' }, main);
    this.#counters.increment('jobs.scrubbed', { queue: 'aux' }, aux);
    this.#counters.increment('workers.scrubbed', {}, workers);
  }

  /** A sweep found something wrong. */
  swept(kind: string): void {
    this.#counters.increment('sweep.findings', { kind });
  }

  /** Credentials were wrong. */
  authenticationFailed(reason: string): void {
    this.#counters.increment('authentication.failed', { reason });
  }

  /** And too many before them, from the same address. */
  authenticationSlowed(): void {
    this.#counters.increment('authentication.slowed', {});
  }

  processStarted(type: 'web' | 'worker'): void {
    this.#counters.increment('process', { status: 'start', type });
  }

  processStopped(type: 'web' | 'worker'): void {
    this.#counters.increment('process', { status: 'stop', type });
  }
}
