import { StorageFull } from '../errors.ts';
import { Batcher, TotalWaiting } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { bytesOf, Copies } from './copies.ts';
import {
  type Outcome,
  type Publication,
  type PublishFigures,
  type PublishLimits,
  type Stored,
  storePublications,
} from './publication.ts';

/**
 * Maximum events that one script call stores. A longer publication is stored alone. Storing 2,000 events blocks Redis
 * for a few ms.
 */
export const MAX_EVENTS_PER_CALL = 2000;
/** Storing this many bytes takes Redis as long as storing one short event. So a long event counts as several. */
export const BYTES_PER_EVENT = 1000;

/** A publication with the sum of its events' bytes, which is computed only once. */
type Measured = Publication & { bytes: number };

/**
 * An object that gets each accepted publication, such as the live tail (a stream of new events for people who debug).
 */
export interface Onlooker {
  note(publication: Publication): void;
}

/** Stores publications in groups: many in one script call. */
export class Publisher {
  readonly #partitions: Partitions;
  readonly #figures: PublishFigures;
  readonly #onFull: () => void;
  readonly #onlooker: Onlooker | undefined;
  readonly #limits: PublishLimits;
  readonly #copies: Copies;
  readonly #totalWaiting = new TotalWaiting();
  readonly #batchers: ReadonlyMap<Partition, Batcher<Measured, Outcome>>;

  /** Calls `onFull` if Redis is out of memory. `onFull` must free some memory at once. */
  constructor(
    partitions: Partitions,
    figures: PublishFigures,
    limits: PublishLimits,
    onFull = () => {},
    onlooker?: Onlooker,
  ) {
    this.#partitions = partitions;
    this.#copies = new Copies(partitions);
    this.#batchers = new Map(partitions.all.map((partition) => [partition, this.#batcherOf(partition)]));
    this.#figures = figures;
    this.#limits = limits;
    this.#onFull = onFull;
    this.#onlooker = onlooker;
  }

  /**
   * Stores a publication. Resolves with `accepted` when Redis has the events for every subscriber of the topic, and
   * with another Outcome if this call has stored nothing.
   *
   * Throws body_too_large if the topic has too many subscribers for so many events, and StorageFull if Redis is out of
   * memory. In both cases nothing is stored. Throws StorageUnavailable if Redis does not answer. In this case the
   * events may be stored or not. With an idempotency key, they can safely be published again.
   */
  publish(publication: Publication): Promise<Outcome> {
    const home = this.#partitions.ofTopic(publication.topic);
    const batcher = this.#batchers.get(home) as Batcher<Measured, Outcome>;
    const bytes = bytesOf(publication);
    const measured = { ...publication, bytes };
    const checking = this.#copies.check(publication, bytes);
    return checking ? checking.then(() => batcher.add(measured)) : batcher.add(measured);
  }

  #batcherOf(partition: Partition): Batcher<Measured, Outcome> {
    return new Batcher((group) => this.#storeGroup(partition, group), {
      max: MAX_EVENTS_PER_CALL,
      weigh: (publication) => this.#weigh(publication),
      ownerOf: ({ client }) => client,
      totalWaiting: this.#totalWaiting,
    });
  }

  #weigh(publication: Measured): number {
    const { events, bytes } = publication;
    return Math.max(events.length, bytes / BYTES_PER_EVENT, this.#copies.weigh(publication, bytes));
  }

  async #storeGroup(partition: Partition, group: readonly Measured[]): Promise<Outcome[]> {
    const { outcomes, added } = await this.#call(partition, group);
    for (const [index, { outcome, subscribers }] of outcomes.entries()) {
      if (outcome !== 'accepted') continue;
      const publication = group[index] as Measured;
      const { topic, events, bytes } = publication;
      this.#onlooker?.note(publication);
      this.#copies.note(topic, subscribers);
      this.#figures.published(topic, events.length, bytes);
    }
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
