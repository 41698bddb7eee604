import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import type { Store } from '../store/store.ts';
import { type Demand, type PublishRates, type Spent, spend } from './spending.ts';

/** So many ask at once, whatever else the turn of the event loop brings: as the publisher does. */
const ENOUGH = 128;

interface Waiting {
  demand: Demand;
  accept: (headers: RateHeaders) => void;
  fail: (error: unknown) => void;
}

/** What a client may still publish (draft-ietf-httpapi-ratelimit-headers). */
export interface RateHeaders {
  'RateLimit-Policy': string;
  RateLimit: string;
}

/** A limit that is set: its name in headers, how much a second, and when the bucket is full, by the monotonic clock. */
interface Bucket {
  name: string;
  perSecond: number;
  fullAtMs: number;
}

/**
 * What each client may publish, over all web processes: the buckets are in Redis. All who come in one turn of the event loop
 * ask in one script call. Who was refused is refused here until there is something in its buckets: before its body is read.
 */
export class RateLimit {
  readonly #store: Store;
  readonly #rates: PublishRates;
  readonly #policy: string;
  /** The buckets of clients that were refused. */
  readonly #refused = new Map<string, Bucket[]>();
  #waiting: Waiting[] = [];

  /** Undefined if nothing is limited: then publishing pays nothing. */
  static of(store: Store, rates: PublishRates): RateLimit | undefined {
    return rates.publishRate > 0 || rates.publishBytes > 0 ? new RateLimit(store, rates) : undefined;
  }

  private constructor(store: Store, rates: PublishRates) {
    this.#store = store;
    this.#rates = rates;
    const seconds = Math.ceil(rates.publishBurstMs / 1000);
    this.#policy = this.#buckets({ letIn: true, eventsFullInMs: 0, bytesFullInMs: 0 })
      .map(({ name, perSecond }) => {
        const unit = name === 'bytes' ? 'content-bytes' : name;
        return `"${name}";q=${this.#most(perSecond)};w=${seconds};qu="${unit}"`;
      })
      .join(', ');
  }

  /** Throws rate_limited if it is known that the client has to wait. */
  check(client: string): void {
    const buckets = this.#refused.get(client);
    if (!buckets) return;
    const waitMs = this.#waitMs(buckets);
    if (waitMs > 0) throw this.#refusal(buckets, waitMs);
    this.#refused.delete(client);
  }

  /** Resolves when the publication may go on, with headers for its answer. Throws rate_limited, or as Store does. */
  spend(demand: Demand): Promise<RateHeaders> {
    return new Promise((accept, fail) => {
      this.#waiting.push({ demand, accept, fail });
      if (this.#waiting.length === 1) setImmediate(() => void this.#ask());
      else if (this.#waiting.length === ENOUGH) void this.#ask();
    });
  }

  async #ask(): Promise<void> {
    const group = this.#waiting;
    this.#waiting = [];
    if (group.length === 0) return;
    const demands = group.map(({ demand }) => demand);
    try {
      const spent = await spend(this.#store, this.#rates, demands);
      for (const [index, each] of group.entries()) this.#settle(each, spent[index] as Spent);
    } catch (error) {
      for (const { fail } of group) fail(error);
    }
  }

  #settle({ demand: { client }, accept, fail }: Waiting, spent: Spent): void {
    const buckets = this.#buckets(spent);
    if (spent.letIn) return void accept(this.#headers(buckets));
    this.#refused.set(client, buckets);
    fail(this.#refusal(buckets, this.#waitMs(buckets)));
  }

  #buckets({ eventsFullInMs, bytesFullInMs }: Spent): Bucket[] {
    const nowMs = clock.monotonicMs();
    const { publishRate, publishBytes } = this.#rates;
    return [
      { name: 'events', perSecond: publishRate, fullAtMs: nowMs + eventsFullInMs },
      { name: 'bytes', perSecond: publishBytes, fullAtMs: nowMs + bytesFullInMs },
    ].filter(({ perSecond }) => perSecond > 0);
  }

  /** Until there is something in all of them. */
  #waitMs(buckets: readonly Bucket[]): number {
    const fullAtMs = Math.max(...buckets.map((bucket) => bucket.fullAtMs));
    return fullAtMs - this.#rates.publishBurstMs - clock.monotonicMs();
  }

  #most(perSecond: number): number {
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

  #refusal(buckets: readonly Bucket[], waitMs: number): BusError {
    const seconds = Math.max(1, Math.ceil(waitMs / 1000));
    const rates = buckets.map(({ name, perSecond }) => `${perSecond} ${name} a second`).join(' and ');
    const detail = `this client may publish ${rates}; nothing was stored. Try again in ${seconds} s`;
    const headers = { ...this.#headers(buckets), 'Retry-After': String(seconds) };
    return new BusError('rate_limited', detail, { headers });
  }
}
