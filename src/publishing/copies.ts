import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { BYTES_PER_COPY } from '../store/copies.ts';
import type { Partitions } from '../store/partitions.ts';
import { marksIn } from '../subscribing/topic_marks.ts';
import { sumOf } from '../sum.ts';
import type { Publication } from './publication.ts';

type Counted = Pick<Publication, 'topic' | 'idempotency'> & { events: readonly unknown[] };

/** Number of copies (one event for one subscriber each) that Redis stores in the time for accepting one event. */
const COPIES_PER_EVENT = 50;
/**
 * Maximum copies (events × subscribers) of one publication. Without this limit, a publication of 5 MB for 250
 * subscribers made a Redis with a limit of 256 MB grow to 1.2 GB.
 */
const MAX_OF_PUBLICATION = 200_000;
/**
 * A count of a topic's subscribers is fresh for this long. If the count is older, the subscribers are counted again
 * before a publication of many events is checked.
 */
const FRESH_MS = 1000;
/**
 * Maximum events of a publication that need not wait for a fresh count of its topic's subscribers. Ten events for
 * 10,000 subscribers (the default maximum) make 100,000 copies: half of what is permitted.
 */
const MAX_EVENTS_UNCOUNTED = 10;
const MAX_TOPICS_REMEMBERED = 10_000;

/** Limits the copies that one publication makes: events × subscribers of the topic. */
export class Copies {
  readonly #partitions: Partitions;
  readonly #counts = new LRUCache<string, { subscribers: number; atMs: number }>({
    max: MAX_TOPICS_REMEMBERED,
  });

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  note(topic: string, subscribers: number): void {
    this.#counts.set(topic, { subscribers, atMs: clock.monotonicMs() });
  }

  /**
   * Estimates how long Redis takes to store the copies of a publication. The unit is the time for accepting one event,
   * in which Redis can store COPIES_PER_EVENT copies of short events. For example, 10 short events for 100 subscribers
   * are 1000 copies, or 20 units. `bytes` is the result of `bytesOf`.
   */
  weigh(publication: Counted, bytes: number): number {
    return this.#count(publication, bytes) / COPIES_PER_EVENT;
  }

  /**
   * Throws body_too_large if a publication makes too many copies (events × subscribers). Asks Redis for the number of
   * subscribers only if the answer can matter. `bytes` is the result of `bytesOf`. Never refuses:
   * - a single event, because the publisher cannot divide it;
   * - a repeat (its idempotency key was used before), because Redis does not store it again.
   */
  async check(publication: Counted, bytes: number): Promise<void> {
    const { topic, events } = publication;
    const isOne = events.length === 1;
    const isAllowed = isOne || this.#count(publication, bytes) <= MAX_OF_PUBLICATION;
    const isSmall = asEvents(publication, bytes) <= MAX_EVENTS_UNCOUNTED;
    if (isAllowed && (isSmall || (isOne && this.#counts.has(topic)))) return;
    if (!this.#isFresh(topic)) {
      await this.#countSubscribers(topic);
      await this.check(publication, bytes);
    } else if (!isAllowed) {
      await this.#refuseUnlessKnown(publication, bytes);
    }
  }

  #isFresh(topic: string): boolean {
    const { atMs = Number.NEGATIVE_INFINITY } = this.#counts.get(topic) ?? {};
    return clock.monotonicMs() - atMs < FRESH_MS;
  }

  #count(publication: Counted, bytes: number): number {
    return asEvents(publication, bytes) * (this.#counts.get(publication.topic)?.subscribers ?? 1);
  }

  async #countSubscribers(topic: string): Promise<void> {
    const home = this.#partitions.ofTopic(topic);
    const [here, elsewhere] = await home.command((redis, keys) =>
      Promise.all([redis.scard(keys.topic_subscribers(topic)), redis.hget(keys.topic(topic), 'elsewhere')]),
    );
    const others = [...marksIn(elsewhere).values()].map(({ subscribers }) => subscribers);
    this.note(topic, here + sumOf(others));
  }

  /**
   * Throws body_too_large, unless the publication is a repeat: its idempotency key was used before. Redis may get a
   * repeat, because Redis does not store it again.
   */
  async #refuseUnlessKnown(publication: Counted, bytes: number): Promise<void> {
    const { topic, idempotency, events } = publication;
    const home = this.#partitions.ofTopic(topic);
    if (idempotency) {
      const { digest } = idempotency;
      const known = await home.command((redis, keys) => redis.exists(keys.idempotency(digest)));
      if (known === 1) return;
    }
    const subscribers = this.#counts.get(topic)?.subscribers ?? 1;
    const counted = asEvents(publication, bytes);
    const maxEvents = Math.max(1, Math.floor((MAX_OF_PUBLICATION / subscribers) * (events.length / counted)));
    const what = `${maxEvents} events${counted > events.length ? ' of this length' : ''}`;
    throw new BusError(
      'body_too_large',
      `${topic} has ${subscribers} subscribers; send ${what} at a time at most`,
    );
  }
}

/**
 * Returns how many short events would be as much work for Redis as these events. A long event counts as several short
 * ones.
 */
function asEvents({ events }: Counted, bytes: number): number {
  return Math.max(events.length, bytes / BYTES_PER_COPY);
}

/**
 * Returns the size (bytes) of those events that are copied for each subscriber now, which are strings. A delayed event
 * is an object, and is copied only when it is due.
 */
export function bytesOf({ events }: Pick<Counted, 'events'>): number {
  let bytes = 0;
  for (const event of events) if (typeof event === 'string') bytes += Buffer.byteLength(event);
  return bytes;
}
