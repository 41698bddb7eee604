import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';

/** Maximum publishes that one script call charges to their clients' rate limits. 1000 take Redis about 2 ms. */
const MAX_DEMANDS_PER_CALL = 1000;
const MAX_CLIENTS_REMEMBERED = 10_000;

type PublishRates = Pick<Config, 'publishRate' | 'publishBytes' | 'publishBurstMs'>;

type Demand = Arguments<'spend'>['demands'][number];
type Spent = Reply<'spend'>[number];

/** Headers that say what the client may still publish (draft-ietf-httpapi-ratelimit-headers). */
export interface RateHeaders {
  'RateLimit-Policy': string;
  RateLimit: string;
}

/**
 * A token bucket of a client. Its `name` says whether it limits `events` or `bytes`. It will be full again at
 * `fullAtMs`, by the monotonic clock.
 */
interface Bucket {
  name: string;
  perSecond: number;
  fullAtMs: number;
}

/**
 * Limits the publishes of each client over all processes, by token buckets in Redis. Once Redis has said that a bucket
 * of a client is empty, this process refuses the client without asking Redis again, until the bucket has refilled
 * enough.
 */
export class RateLimit {
  readonly #control: Partition;
  readonly #rates: PublishRates;
  readonly #policy: string;
  readonly #refused = new LRUCache<string, Bucket[]>({ max: MAX_CLIENTS_REMEMBERED });
  readonly #batcher = new Batcher<Demand, Spent>((demands) => spend(this.#control, this.#rates, demands), {
    max: MAX_DEMANDS_PER_CALL,
  });

  static of(control: Partition, rates: PublishRates): RateLimit | undefined {
    return rates.publishRate > 0 || rates.publishBytes > 0 ? new RateLimit(control, rates) : undefined;
  }

  private constructor(control: Partition, rates: PublishRates) {
    this.#control = control;
    this.#rates = rates;
    const seconds = Math.ceil(rates.publishBurstMs / 1000);
    this.#policy = this.#buckets({ letIn: true, eventsFullInMs: 0, bytesFullInMs: 0 })
      .map(({ name, perSecond }) => {
        const unit = name === 'bytes' ? 'content-bytes' : name;
        return `"${name}";q=${this.#bucketSize(perSecond)};w=${seconds};qu="${unit}"`;
      })
      .join(', ');
  }

  /** Throws rate_limited if this process knows that the client must wait. Does not ask Redis. */
  check(client: string): void {
    const buckets = this.#refused.get(client);
    if (buckets && this.#waitMs(buckets) > 0) throw this.#refusal(buckets);
  }

  /** True if `check` would throw. */
  mustWait(client: string): boolean {
    const buckets = this.#refused.get(client);
    return buckets !== undefined && this.#waitMs(buckets) > 0;
  }

  /**
   * Charges a client for the bytes of a body, and for one event. Call this before the body is parsed, so that wrong
   * content is charged too. Resolves with headers for the answer. Throws rate_limited, StorageUnavailable or
   * StorageFull.
   */
  admit(client: string, bytes: number): Promise<RateHeaders> {
    return this.#spend({ client, events: 1, bytes, isAdmitted: false });
  }

  /**
   * Charges a client for events that were admitted or published already, even if its buckets are empty. Resolves with
   * headers for the answer. Throws StorageUnavailable or StorageFull.
   */
  charge(client: string, events: number, bytes: number): Promise<RateHeaders> {
    return this.#spend({ client, events, bytes, isAdmitted: true });
  }

  async #spend(demand: Demand): Promise<RateHeaders> {
    const spent = await this.#batcher.add(demand);
    const buckets = this.#buckets(spent);
    if (this.#waitMs(buckets) > 0) this.#refused.set(demand.client, buckets);
    if (spent.letIn) return this.#headers(buckets);
    throw this.#refusal(buckets);
  }

  #buckets({ eventsFullInMs, bytesFullInMs }: Spent): Bucket[] {
    const nowMs = clock.monotonicMs();
    const { publishRate, publishBytes } = this.#rates;
    return [
      { name: 'events', perSecond: publishRate, fullAtMs: nowMs + eventsFullInMs },
      { name: 'bytes', perSecond: publishBytes, fullAtMs: nowMs + bytesFullInMs },
    ].filter(({ perSecond }) => perSecond > 0);
  }

  #waitMs(buckets: readonly Bucket[]): number {
    const fullAtMs = Math.max(...buckets.map((bucket) => bucket.fullAtMs));
    return fullAtMs - this.#rates.publishBurstMs - clock.monotonicMs();
  }

  #bucketSize(perSecond: number): number {
    return Math.ceil((perSecond * this.#rates.publishBurstMs) / 1000);
  }

  #headers(buckets: readonly Bucket[]): RateHeaders {
    const nowMs = clock.monotonicMs();
    const items = buckets.map(({ name, perSecond, fullAtMs }) => {
      const fullInMs = Math.max(0, fullAtMs - nowMs);
      const left = Math.max(0, Math.floor(((this.#rates.publishBurstMs - fullInMs) * perSecond) / 1000));
      return `"${name}";r=${left};t=${Math.ceil(fullInMs / 1000)}`;
    });
    return { 'RateLimit-Policy': this.#policy, RateLimit: items.join(', ') };
  }

  #refusal(buckets: readonly Bucket[]): BusError {
    const seconds = Math.max(1, Math.ceil(this.#waitMs(buckets) / 1000));
    const rates = buckets.map(({ name, perSecond }) => `${perSecond} ${name} a second`).join(' and ');
    const detail = `this client may publish ${rates}; nothing was stored. Try again in ${seconds} s`;
    const headers = { ...this.#headers(buckets), 'Retry-After': String(seconds) };
    return new BusError('rate_limited', detail, { headers });
  }
}

/**
 * Charges clients for the events and bytes of their publishes (`demands`), in the given order. Resolves with a result
 * for each demand: whether the client may publish, and after how many ms its buckets will be full again.
 */
export function spend(control: Partition, rates: PublishRates, demands: readonly Demand[]): Promise<Spent[]> {
  const { publishBurstMs, publishRate, publishBytes } = rates;
  const limits = { burstMs: publishBurstMs, eventsPerSecond: publishRate, bytesPerSecond: publishBytes };
  return control.run('spend', { ...limits, demands });
}
