import type { Partition } from '../store/partition.ts';
import { bytesOf } from './copies.ts';
import { BYTES_PER_EVENT, groupCommit, type PublishingParts } from './group_commit.ts';
import { type Outcome, type Publication, storePublications } from './publication.ts';

/** A publication with the sum of its events' bytes, which is computed only once. */
type Measured = Publication & { bytes: number };

/** Stores publications in groups: many in one script call. */
export class Publisher {
  readonly #parts: PublishingParts;
  readonly #store: (publication: Measured) => Promise<Outcome>;

  constructor(parts: PublishingParts) {
    this.#parts = parts;
    this.#store = groupCommit<Measured, Outcome>(
      parts,
      (partition, group) => this.#storeGroup(partition, group),
      (publication) => this.#weigh(publication),
    );
  }

  /**
   * Stores a publication. Resolves with `accepted` when Redis has the events for every subscriber of the topic, and
   * with another Outcome, which gives the reason, if this call has stored nothing.
   *
   * Throws body_too_large if the topic has too many subscribers for so many events, and StorageFull if Redis is out of
   * memory. In both cases nothing is stored. Throws StorageUnavailable if Redis does not answer. In this case the
   * events may be stored or not. With an idempotency key, they can safely be published again.
   */
  publish(publication: Publication): Promise<Outcome> {
    const bytes = bytesOf(publication);
    const measured = { ...publication, bytes };
    const checking = this.#parts.copies.check(publication, bytes);
    return checking ? checking.then(() => this.#store(measured)) : this.#store(measured);
  }

  #weigh(publication: Measured): number {
    const { events, bytes } = publication;
    return Math.max(events.length, bytes / BYTES_PER_EVENT, this.#parts.copies.weigh(publication, bytes));
  }

  async #storeGroup(partition: Partition, group: readonly Measured[]): Promise<Outcome[]> {
    const { limits, onlooker, copies, figures } = this.#parts;
    const { outcomes, added } = await storePublications(partition, group, limits);
    for (const [index, { outcome, subscribers }] of outcomes.entries()) {
      if (outcome !== 'accepted') continue;
      const publication = group[index] as Measured;
      const { topic, events, bytes } = publication;
      onlooker.note(publication);
      copies.note(topic, subscribers);
      figures.published(topic, events.length, bytes);
    }
    for (const [subscriber, events] of added) figures.added(subscriber, events);
    return outcomes.map(({ outcome }) => outcome);
  }
}
