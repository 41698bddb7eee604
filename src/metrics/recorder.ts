import type { ProcessType } from '../store/keys.ts';
import { sumOf } from '../sum.ts';
import type { Tags } from './counter_hash.ts';
import type { Counters } from './counters.ts';
import { bucketOf, HISTOGRAMS, type HistogramName } from './histogram.ts';

interface DeliveryResult {
  /** The subscriber's token. */
  subscriber: string;
  status: 'success' | 'failure';
  events: number;
  durationMs: number;
  /** Time from the creation of the batch to the end of the attempt. */
  latencyMs: number;
}

/** Counts what happens in the bus, as the name of each method says. No method throws. */
export class Recorder {
  readonly #counters: Pick<Counters, 'increment'>;

  constructor(counters: Pick<Counters, 'increment'>) {
    this.#counters = counters;
  }

  published(topic: string, events: number, bytes: number): void {
    this.#counters.increment('events.published', { topic }, events);
    this.#counters.increment('events.bytes', { topic }, bytes);
  }

  added(subscriber: string, events: number): void {
    this.#counters.increment('events.added', { queue: subscriber }, events);
  }

  /** Counts events that left the queue of a subscriber, for whatever reason. */
  removed(subscriber: string, events: number): void {
    this.#counters.increment('events.removed', { queue: subscriber }, events);
  }

  /** Counts events that were dropped from a queue or from dead letters, because memory was short. */
  autodropped(subscriber: string, events: number): void {
    this.#counters.increment('events.autodropped', { queue: subscriber }, events);
  }

  /**
   * Records how late delayed events were published. `lateMs` has, for each event, the time (ms) from when it was due
   * until it was published.
   */
  publishedLate(lateMs: readonly number[]): void {
    this.#observe('delayed.lateness', lateMs);
  }

  delayedDropped(topic: string, events: number): void {
    this.#counters.increment('delayed.dropped', { topic }, events);
  }

  /**
   * Counts firings of triggers. `lateMs` has, for each firing, the time (ms) from when it was due until it happened.
   */
  triggersFired(lateMs: readonly number[]): void {
    this.#counters.increment('triggers.fired', {}, lateMs.length);
    this.#observe('triggers.lateness', lateMs);
  }

  /** Counts due times at which triggers did not fire, for example because no worker ran in time. */
  triggersMissed(count: number): void {
    this.#counters.increment('triggers.missed', {}, count);
  }

  /** Counts values of a histogram, in ms. */
  #observe(histogram: HistogramName, values: readonly number[], tags: Tags = {}): void {
    for (const [le, { length }] of Map.groupBy(values, (ms) => bucketOf(HISTOGRAMS[histogram].bounds, ms)))
      this.#counters.increment(`${histogram}.bucket`, { le, ...tags }, length);
    this.#counters.increment(`${histogram}.sum`, tags, sumOf(values));
  }

  buried(subscriber: string, reason: string, events: number): void {
    const tags = { queue: subscriber, reason };
    this.#counters.increment('events.dead_lettered', tags, events);
    this.#counters.increment('batches.dead_lettered', tags);
  }

  /** Counts the first attempt at a batch. The attempt began `latencyMs` after the batch was opened. */
  firstAttempted(subscriber: string, latencyMs: number): void {
    this.#counters.increment('latency.batches.count', { queue: subscriber });
    this.#counters.increment('latency.batches.first_attempt', { queue: subscriber }, latencyMs);
  }

  delivered({ subscriber, status, events, durationMs, latencyMs }: DeliveryResult): void {
    const counters = this.#counters;
    const tags = { queue: subscriber, status };
    counters.increment('delivery.events', tags, events);
    counters.increment('delivery.batches', tags);
    counters.increment('delivery.time', tags, durationMs);
    counters.increment('delivery.time2', tags, durationMs ** 2);
    this.#observe('delivery.duration', [durationMs], { status });
    if (status !== 'success') return;
    counters.increment('latency.batches.last_attempt', { queue: subscriber }, latencyMs);
    this.#observe('latency.end_to_end', [latencyMs]);
  }

  /** Counts a join's completed keys (orders, for example), its expired keys, and its events without a key. */
  joined(subscriber: string, counts: { completed: number; expired: number; unkeyed: number }): void {
    this.#counters.increment('joins.completed', { queue: subscriber }, counts.completed);
    this.#counters.increment('joins.expired', { queue: subscriber }, counts.expired);
    this.#counters.increment('joins.unkeyed', { queue: subscriber }, counts.unkeyed);
  }

  scrubbed({ main, aux, workers }: { main: number; aux: number; workers: number }): void {
    this.#counters.increment('jobs.scrubbed', { queue: 'main' }, main);
    this.#counters.increment('jobs.scrubbed', { queue: 'aux' }, aux);
    this.#counters.increment('workers.scrubbed', {}, workers);
  }

  swept(kind: string): void {
    this.#counters.increment('sweep.findings', { kind });
  }

  authenticationFailed(reason: string): void {
    this.#counters.increment('authentication.failed', { reason });
  }

  /** Counts a request answered with 429, because its address had sent too many wrong credentials. */
  authenticationSlowed(): void {
    this.#counters.increment('authentication.slowed', {});
  }

  /** Counts a call that was refused with this error code, because of the state or the limits of the bus. */
  callRefused(code: string): void {
    this.#counters.increment('calls.refused', { code });
  }

  processStarted(type: ProcessType): void {
    this.#counters.increment('process', { status: 'start', type });
  }

  processStopped(type: ProcessType): void {
    this.#counters.increment('process', { status: 'stop', type });
  }
}
