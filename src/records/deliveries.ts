import { storedEvents } from '../delivering/batch.ts';
import { eventJson } from '../delivering/legacy_event.ts';
import type { DeathReason } from '../delivering/settlement.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { firstFound, type Partitions } from '../store/partitions.ts';
import { sumOf } from '../sum.ts';
import { type Delivery, deliveryOf, type Wait } from './delivery.ts';
import { newestFirst, type Place } from './place.ts';

/** Maximum batches that one script call returns. 100 take Redis about 2 ms. */
const MAX_BATCHES_PER_CALL = 100;
/**
 * Maximum events that one command reads. By default an event has at most 64 KiB of data, so 20 events have about 1.3
 * MB.
 */
const EVENTS_PER_READ = 20;

interface Wanted {
  /** The tokens of the subscribers whose batches are listed. Undefined stands for all subscribers. */
  tokens?: readonly string[] | undefined;
  state?: string | undefined;
  /** With the state `dead`: limits the listing to batches that died for this reason. */
  reason?: DeathReason | undefined;
  /**
   * Limits the listing to batches whose time is at least `sinceMs` and less than `untilMs`. The time of a batch is when
   * it ended or, if it has not ended, when it was opened.
   */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
  after?: Place | undefined;
}

interface DeliveryPage {
  deliveries: Delivery[];
  /** The place after which the next page begins. Undefined on the last page. */
  next: Place | undefined;
  /**
   * Number of batches, indexes of batches, and delivery logs that were searched for the page. The more were searched,
   * the more the page counts in the rate limit.
   */
  looked: number;
}

/**
 * Lists, finds, retries and buries batches. An accepted or dropped batch is deleted; the methods return its record in
 * the delivery log instead. With `tokens` (of subscribers), a method sees only the batches of these
 * subscribers.
 */
export class Deliveries {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Returns a page of batches, newest first. A page may be short or empty although more batches follow. Only the last
   * page has no `next`.
   */
  async list({ after, ...wanted }: Wanted, limit: number): Promise<DeliveryPage> {
    const page: DeliveryPage = { deliveries: [], next: after, looked: 0 };
    for (;;) {
      const size = Math.min(MAX_BATCHES_PER_CALL, limit - page.deliveries.length);
      const { deliveries, next, looked } = await this.#slice(wanted, size, page.next);
      page.deliveries.push(...deliveries);
      page.looked += looked;
      page.next = next;
      // A short page is returned, too. Either no batches follow, or the script call has stopped after searching 2,000
      // batches. In the second case, filling the page could take many more calls.
      if (deliveries.length < size || page.deliveries.length === limit || !next) return page;
    }
  }

  async #slice(wanted: Wanted, limit: number, after: Place | undefined): Promise<DeliveryPage> {
    const { tokens, sinceMs = 0, ...filter } = wanted;
    const place = { placeMs: after?.atMs, placeId: after?.id };
    const args = { ...filter, sinceMs, ...place, limit };
    const pages = await Promise.all(
      this.#holding(tokens).map(async ([partition, there]) => {
        const page = await partition.run('list_deliveries', { ...args, tokens: there });
        if (page.skipped !== undefined) partition.logSkipped(page.skipped);
        return page;
      }),
    );
    const entries = pages
      .flatMap((page) => page.entries.map((entry) => ({ entry, place: placeOf(entry.placeMs, entry.id) })))
      .sort((one, other) => newestFirst(one.place, other.place));
    // Each partition was searched from new to old, down to its own end (`nextMs`, `nextId`). Its older batches were not
    // read, so the page must end at the newest of these ends. For example, if partition 0 was searched down to 12:00
    // and partition 1 down to 11:00, the page ends at 12:00.
    const ends = pages.flatMap(({ nextMs, nextId }) => (nextMs && nextId ? placeOf(nextMs, nextId) : []));
    const end = ends.sort(newestFirst)[0];
    const read = end ? entries.filter(({ place }) => newestFirst(place, end) <= 0) : entries;
    const shown = read.slice(0, limit);
    return {
      deliveries: shown.map(({ entry }) => deliveryOf(entry)),
      next: read.length > limit ? shown.at(-1)?.place : end,
      looked: sumOf(pages.map((page) => page.looked)),
    };
  }

  /**
   * Returns the batch with this id or, if it was accepted or dropped, its record in the delivery log. If the batch
   * waits for an attempt, `wait` says why. `looked` is how many records of the delivery log were searched. If `state`
   * is `dead`, only dead letters are searched.
   */
  async find(
    id: string,
    tokens?: readonly string[],
    state?: 'dead',
  ): Promise<{ delivery: Delivery | undefined; wait?: Wait | undefined; looked: number }> {
    let looked = 0;
    const found = await firstFound(this.#holding(tokens), async ([partition, there]) => {
      let place = '0';
      do {
        const reply = await partition.run('find_delivery', { tokens: there, id, state, place });
        const [entry] = reply.entries;
        looked += reply.looked;
        place = reply.place;
        if (reply.skipped !== undefined) partition.logSkipped(reply.skipped);
        if (!entry) continue;
        const { waitsFor, nextMs = null } = reply;
        const wait = waitsFor && { waits_for: waitsFor, next_attempt_at: nextMs };
        return { delivery: deliveryOf(entry), wait };
      } while (place !== '0');
      return undefined;
    });
    return { delivery: undefined, ...found, looked };
  }

  /** Makes a waiting batch due at once. */
  async retry(id: string, tokens?: readonly string[]): Promise<Reply<'retry_batch'>> {
    const found = await firstFound(this.#holding(tokens), async ([partition, there]) => {
      const outcome = await partition.run('retry_batch', { tokens: there, bid: id });
      return outcome === 'delivery_not_found' ? undefined : outcome;
    });
    return found ?? 'delivery_not_found';
  }

  /** Makes a waiting batch a dead letter. */
  async bury(id: string, tokens?: readonly string[]): Promise<Reply<'bury_batch'>> {
    const found = await firstFound(this.#holding(tokens), async ([partition, there]) => {
      const reply = await partition.run('bury_batch', { tokens: there, bid: id });
      return reply.outcome === 'delivery_not_found' ? undefined : reply;
    });
    return found ?? { outcome: 'delivery_not_found', token: undefined, events: 0 };
  }

  /**
   * Yields the events of a batch, some at a time. Each is the JSON text that is delivered, or `{"undecodable":
   * base64}`. Ends early if the batch is deleted meanwhile.
   */
  async *events({ id, subscriber, state, event_count }: Delivery): AsyncGenerator<string[]> {
    const partition = this.#partitions.ofSubscriber(subscriber);
    const { keys } = partition;
    const list = state === 'dead' ? keys.dead_letter(id) : keys.batch(id);
    for await (const stored of storedEvents(partition, list, event_count, EVENTS_PER_READ))
      yield stored.map(jsonOf);
  }

  /**
   * Groups the tokens in `tokens` by partition. Without `tokens`, returns all partitions, each with an empty list. To
   * a script, an empty list means all subscribers.
   */
  #holding(tokens: readonly string[] | undefined): [Partition, string[]][] {
    if (tokens === undefined) return this.#partitions.all.map((partition) => [partition, []]);
    return [...Map.groupBy(tokens, (token) => this.#partitions.ofSubscriber(token))];
  }
}

function jsonOf(event: Buffer): string {
  try {
    return eventJson(event).toString();
  } catch {
    return JSON.stringify({ undecodable: event.toString('base64') });
  }
}

function placeOf(placeMs: string, id: string): Place {
  return { atMs: Number(placeMs), id };
}
