import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import type { Partitions } from '../store/partitions.ts';
import { marksIn } from '../subscribing/topic_marks.ts';
import { sumOf } from '../sum.ts';
import type { Publication } from './publication.ts';

type Counted = Pick<Publication, 'topic' | 'idempotency'> & { events: readonly unknown[] };

/**
 * Number of copies (events for one subscriber each) that Redis stores in the time that it takes to accept one event.
 */
const COPIES_PER_EVENT = 50;
/**
 * Maximum copies of one publication. One script call stores them all: 200,000 block Redis for 50 to 60 ms, and a
 * million for 210 ms. The limit also bounds the memory of a script, which Redis does not interrupt when it runs out of
 * memory.
 */
const MAX_COPIES = 200_000;
/** Time for which a count of a topic's subscribers is used to decide about a publication. */
const FRESH_MS = 1000;
/**
 * Maximum events of a publication that is stored at once while the number of the topic's subscribers is unknown. For
 * 10,000 subscribers (the default maximum), 10 events make only 100,000 copies.
 */
const MAX_EVENTS_UNCOUNTED = 10;
const MAX_TOPICS_REMEMBERED = 10_000;

/** Limits the copies that one publication makes. Each event is copied for each subscriber of its topic. */
export class Copies {
  readonly #partitions: Partitions;
  /** For each topic, the number of its subscribers at its last publication, and when that was. */
  readonly #counts = new LRUCache<string, { subscribers: number; atMs: number }>({
    max: MAX_TOPICS_REMEMBERED,
  });

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Notes how many subscribers a topic has. */
  note(topic: string, subscribers: number): void {
    this.#counts.set(topic, { subscribers, atMs: clock.monotonicMs() });
  }

  /**
   * Estimates how long Redis takes to store a publication for all subscribers, in units of the time to accept one
   * event. For example, 10 events for 100 subscribers take 20 units.
   */
  weigh(publication: Counted): number {
    return this.#count(publication) / COPIES_PER_EVENT;
  }

  /**
   * Returns undefined if the publication may be sent to Redis at once. Otherwise returns a promise, which rejects with
   * body_too_large if it makes too many copies. A publication under a known idempotency key is not stored again, and
   * never rejected.
   */
  check(publication: Counted): Promise<void> | undefined {
    const { topic, events } = publication;
    const isAllowed = this.#count(publication) <= MAX_COPIES;
    if (isAllowed && events.length <= MAX_EVENTS_UNCOUNTED) return undefined;
    if (!this.#isFresh(topic)) return this.#countSubscribers(topic).then(() => this.check(publication));
    return isAllowed ? undefined : this.#refuseUnlessKnown(publication);
  }

  #isFresh(topic: string): boolean {
    const { atMs = Number.NEGATIVE_INFINITY } = this.#counts.get(topic) ?? {};
    return clock.monotonicMs() - atMs < FRESH_MS;
  }

  #count({ topic, events }: Counted): number {
    return events.length * (this.#counts.get(topic)?.subscribers ?? 1);
  }

  async #countSubscribers(topic: string): Promise<void> {
    const home = this.#partitions.ofTopic(topic);
    const [here, elsewhere] = await home.command((redis, keys) =>
      Promise.all([redis.scard(keys.topic_subscribers(topic)), redis.hget(keys.topic(topic), 'elsewhere')]),
    );
    const others = [...marksIn(elsewhere).values()].map(({ subscribers }) => subscribers);
    this.note(topic, here + sumOf(others));
  }

  /** Throws body_too_large, unless the idempotency key of the publication was used before. */
  async #refuseUnlessKnown({ topic, idempotency }: Counted): Promise<void> {
    const home = this.#partitions.ofTopic(topic);
    if (idempotency) {
      const { digest } = idempotency;
      const known = await home.command((redis, keys) => redis.exists(keys.idempotency(digest)));
      if (known === 1) return;
    }
    const subscribers = this.#counts.get(topic)?.subscribers ?? 1;
    const maxEvents = Math.floor(MAX_COPIES / subscribers);
    throw new BusError(
      'body_too_large',
      `${topic} has ${subscribers} subscribers; send ${maxEvents} events at a time at most`,
    );
  }
}
