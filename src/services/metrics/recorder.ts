import type { Counters } from '../../models/counters.ts';
import { bucketOf, DELIVERY_SECONDS, LATENCY_SECONDS } from './histogram.ts';

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

/** What happens in the bus, put into counters. Asks nobody, and never throws. */
export class Recorder {
  readonly #counters: Pick<Counters, 'increment'>;

  constructor(counters: Pick<Counters, 'increment'>) {
    this.#counters = counters;
  }

  /** Events were accepted; `bytes` of them packed. */
  published(topic: string, events: number, bytes: number): void {
    const tags = { topic };
    this.#counters.increment('events.published', tags, events);
    this.#counters.increment('events.bytes', tags, bytes);
  }

  /** Events were put in a subscriber's queue. */
  added(queue: string, events: number): void {
    this.#counters.increment('events.added', { queue }, events);
  }

  /** Events left a subscriber's queue, for whatever reason. */
  removed(queue: string, events: number): void {
    this.#counters.increment('events.removed', { queue }, events);
  }

  /** Events were dropped because memory ran short. */
  autodropped(queue: string, events: number): void {
    this.#counters.increment('events.autodropped', { queue }, events);
  }

  /** A delivery begins. */
  attempted({ queue, attempt, latencyMs }: Attempt): void {
    if (attempt !== 1) return;
    const tags = { queue };
    this.#counters.increment('latency.batches.count', tags);
    this.#counters.increment('latency.batches.first_attempt', tags, latencyMs);
  }

  /** A delivery has ended. */
  delivered({ queue, status, events, durationMs, latencyMs }: DeliveryResult): void {
    const counters = this.#counters;
    const tags = { queue, status };
    counters.increment('delivery.events', tags, events);
    counters.increment('delivery.batches', tags);
    counters.increment('delivery.time', tags, durationMs);
    counters.increment('delivery.time2', tags, durationMs ** 2);
    counters.increment('delivery.duration.bucket', { le: bucketOf(durationMs, DELIVERY_SECONDS), status });
    counters.increment('delivery.duration.sum', { status }, durationMs);
    if (status !== 'success') return;
    counters.increment('latency.batches.last_attempt', { queue }, latencyMs);
    counters.increment('latency.end_to_end.bucket', { le: bucketOf(latencyMs, LATENCY_SECONDS) });
    counters.increment('latency.end_to_end.sum', {}, latencyMs);
  }

  /** Dead workers were forgotten, and their jobs given back. */
  scrubbed({ main, aux, workers }: { main: number; aux: number; workers: number }): void {
    this.#counters.increment('jobs.scrubbed', { queue: 'main' }, main);
    this.#counters.increment('jobs.scrubbed', { queue: 'aux' }, aux);
    this.#counters.increment('workers.scrubbed', {}, workers);
  }

  processStarted(type: 'web' | 'worker'): void {
    this.#counters.increment('process', { status: 'start', type });
  }

  processStopped(type: 'web' | 'worker'): void {
    this.#counters.increment('process', { status: 'stop', type });
  }
}
