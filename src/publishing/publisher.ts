import { LRUCache } from 'lru-cache';
import { BusError, StorageFull } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Idempotency } from './idempotency.ts';
import {
  type Outcome,
  type Publication,
  type PublishLimits,
  type Stored,
  storePublications,
} from './publication.ts';

/** Maximum events per script call: they block Redis for a few ms. */
const MAX_EVENTS_PER_CALL = 2000;
/** This many bytes, or copies for subscribers, take Redis as long as one event. */
const BYTES_PER_EVENT = 1000;
const COPIES_PER_EVENT = 50;
/**
 * Maximum copies of one publication, which is stored as a whole. They block Redis for 50 to 60 ms (a million for
 * 210 ms), and no memory limit interrupts a script.
 */
const MAX_COPIES = 200_000;
/**
 * Maximum events of a publication to a topic whose subscribers have not been counted. A larger publication
 * waits for the count.
 */
const MAX_EVENTS_UNCOUNTED = 10;
const MAX_TOPICS_REMEMBERED = 10_000;

interface PublishFigures {
  published(topic: string, events: number, bytes: number): void;
  added(subscriber: string, events: number): void;
}

/** Stores publications, many in one script call. */
export class Publisher {
  readonly #partitions: Partitions;
  readonly #figures: PublishFigures;
  readonly #onFull: () => void;
  readonly #limits: PublishLimits;
  /** The number of subscribers of each topic at its last publication. */
  readonly #subscribers = new LRUCache<string, number>({ max: MAX_TOPICS_REMEMBERED });
  readonly #batchers: ReadonlyMap<Partition, Batcher<Publication, Outcome>>;

  /** `onFull` is called when Redis is out of memory: the caller must free some at once. */
  constructor(partitions: Partitions, figures: PublishFigures, limits: PublishLimits, onFull = () => {}) {
    this.#partitions = partitions;
    this.#batchers = new Map(partitions.all.map((partition) => [partition, this.#batcherOf(partition)]));
    this.#figures = figures;
    this.#limits = limits;
    this.#onFull = onFull;
  }

  /**
   * Resolves when the events are in the batch of every subscriber of the topic, or when it is certain that
   * they will never be. Throws StorageFull (nothing was stored), StorageUnavailable (the events may be
   * stored; with an idempotency key, calling again is safe), or body_too_large if the topic has too many
   * subscribers for this many events.
   */
  publish(publication: Publication): Promise<Outcome> {
    const { topic, events } = publication;
    if (events.length > MAX_EVENTS_UNCOUNTED && !this.#subscribers.has(topic))
      return this.#countSubscribers(topic).then(() => this.publish(publication));
    const batcher = this.#batchers.get(this.#partitions.ofTopic(topic)) as Batcher<Publication, Outcome>;
    if (this.#copies(publication) <= MAX_COPIES) return batcher.add(publication);
    return this.#refuseUnlessKnown(publication).then(() => batcher.add(publication));
  }

  #batcherOf(partition: Partition): Batcher<Publication, Outcome> {
    return new Batcher((group) => this.#storeGroup(partition, group), {
      max: MAX_EVENTS_PER_CALL,
      weigh: (publication) => this.#weigh(publication),
      ownerOf: ({ client }) => client,
    });
  }

  #weigh(publication: Publication): number {
    const bytes = bytesOf(publication) / BYTES_PER_EVENT;
    return Math.max(publication.events.length, bytes, this.#copies(publication) / COPIES_PER_EVENT);
  }

  #copies({ topic, events }: Publication): number {
    return events.length * (this.#subscribers.get(topic) ?? 1);
  }

  async #countSubscribers(topic: string): Promise<void> {
    const home = this.#partitions.ofTopic(topic);
    const count = home.command((redis, keys) => redis.scard(keys.topic_subscribers(topic)));
    this.#subscribers.set(topic, await count);
  }

  /** Throws body_too_large unless the publication is a repeat, since a repeat copies nothing. */
  async #refuseUnlessKnown({ topic, idempotency }: Publication): Promise<void> {
    const home = this.#partitions.ofTopic(topic);
    const known = ({ digest }: Idempotency) =>
      home.command((redis, keys) => redis.exists(keys.idempotency(digest)));
    if (idempotency && (await known(idempotency)) === 1) return;
    const subscribers = this.#subscribers.get(topic) ?? 1;
    const maxEvents = Math.floor(MAX_COPIES / subscribers);
    throw new BusError(
      'body_too_large',
      `${topic} has ${subscribers} subscribers; send ${maxEvents} events at a time at most`,
    );
  }

  async #storeGroup(partition: Partition, group: readonly Publication[]): Promise<Outcome[]> {
    const { outcomes, added } = await this.#call(partition, group);
    const published = new Map<string, { events: number; bytes: number }>();
    group.forEach((publication, index) => {
      const { outcome, subscribers } = outcomes[index] as (typeof outcomes)[number];
      if (outcome !== 'accepted') return;
      const { topic, events } = publication;
      const bytes = bytesOf(publication);
      const before = published.get(topic);
      if (before === undefined) {
        this.#subscribers.set(topic, subscribers);
        published.set(topic, { events: events.length, bytes });
      } else {
        before.events += events.length;
        before.bytes += bytes;
      }
    });
    for (const [topic, { events, bytes }] of published) this.#figures.published(topic, events, bytes);
    for (const [subscriber, events] of added) this.#figures.added(subscriber, events);
    return outcomes.map(({ outcome }) => outcome);
  }

  async #call(partition: Partition, group: readonly Publication[]): Promise<Stored> {
    try {
      return await storePublications(partition, group, this.#limits);
    } catch (error) {
      if (error instanceof StorageFull) this.#onFull();
      throw error;
    }
  }
}

function bytesOf({ events }: Publication): number {
  let bytes = 0;
  for (const event of events) bytes += event.length;
  return bytes;
}
