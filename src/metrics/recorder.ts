import type { Tags } from './counter_hash.ts';
import type { Counters } from './counters.ts';
import { bucketTags, DELIVERY_SECONDS, LATENCY_SECONDS } from './histogram.ts';

/** The tags of this many topics or queues are kept. */
const MAX_KEPT = 10_000;

/** Remembers what `make` returns for a name: counters recognize tags by identity. */
function kept<T>(make: (name: string) => T): (name: string) => T {
  const all = new Map<string, T>();
  return (name) => {
    const known = all.get(name);
    if (known) return known;
    if (all.size === MAX_KEPT) all.clear();
    const made = make(name);
    all.set(name, made);
    return made;
  };
}

export interface DeliveryResult {
  /** The subscriber's token. */
  queue: string;
  status: 'success' | 'failure';
  events: number;
  durationMs: number;
  /** From the creation of the batch to the end of the attempt. */
  latencyMs: number;
}

const NO_TAGS: Tags = {};

/** The tags of deliveries with the same status. */
interface EndTags {
  ofQueue: (queue: string) => Tags;
  ofAll: Tags;
  bucket: (ms: number) => Tags;
}

function endTags(status: string): EndTags {
  return {
    ofQueue: kept((queue) => ({ queue, status })),
    ofAll: { status },
    bucket: bucketTags(DELIVERY_SECONDS, { status }),
  };
}

/** Turns what happens in the bus into counters, in memory. Never throws. */
export class Recorder {
  readonly #counters: Pick<Counters, 'increment'>;
  readonly #topicTags = kept((topic) => ({ topic }));
  readonly #queueTags = kept((queue) => ({ queue }));
  readonly #endTags: Record<DeliveryResult['status'], EndTags> = {
    success: endTags('success'),
    failure: endTags('failure'),
  };
  readonly #latencyTags = bucketTags(LATENCY_SECONDS);

  constructor(counters: Pick<Counters, 'increment'>) {
    this.#counters = counters;
  }

  /** Events were accepted; `bytes` is their packed size. */
  published(topic: string, events: number, bytes: number): void {
    const tags = this.#topicTags(topic);
    this.#counters.increment('events.published', tags, events);
    this.#counters.increment('events.bytes', tags, bytes);
  }

  /** Events were put in a subscriber's queue. */
  added(queue: string, events: number): void {
    this.#counters.increment('events.added', this.#queueTags(queue), events);
  }

  /** Events left a subscriber's queue for any reason. */
  removed(queue: string, events: number): void {
    this.#counters.increment('events.removed', this.#queueTags(queue), events);
  }

  /** Events were dropped from a queue or dead letters because memory ran short. */
  autodropped(queue: string, events: number): void {
    this.#counters.increment('events.autodropped', this.#queueTags(queue), events);
  }

  /** A batch became a dead letter. */
  buried(queue: string, reason: string, events: number): void {
    const tags = { queue, reason };
    this.#counters.increment('events.dead_lettered', tags, events);
    this.#counters.increment('batches.dead_lettered', tags);
  }

  /** A batch is tried for the first time, `latencyMs` after its creation. */
  firstAttempted(queue: string, latencyMs: number): void {
    const tags = this.#queueTags(queue);
    this.#counters.increment('latency.batches.count', tags);
    this.#counters.increment('latency.batches.first_attempt', tags, latencyMs);
  }

  /** An attempt to deliver a batch has ended. */
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

  /** Dead workers were removed and their jobs given back. */
  scrubbed({ main, aux, workers }: { main: number; aux: number; workers: number }): void {
    this.#counters.increment('jobs.scrubbed', { queue: 'main' }, main);
    this.#counters.increment('jobs.scrubbed', { queue: 'aux' }, aux);
    this.#counters.increment('workers.scrubbed', {}, workers);
  }

  /** A sweep found an inconsistency. */
  swept(kind: string): void {
    this.#counters.increment('sweep.findings', { kind });
  }

  /** Credentials were wrong. */
  authenticationFailed(reason: string): void {
    this.#counters.increment('authentication.failed', { reason });
  }

  /** Credentials were wrong too often from one address, and the request was answered 429. */
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
