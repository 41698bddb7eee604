import type { Reply } from '../store/contracts.ts';
import type { Partitions } from '../store/partitions.ts';

/** Maximum bytes of events on a page. The event that reaches this size is the last one on its page. */
const MAX_PAGE_BYTES = 1_048_576;

/**
 * The position of a delayed event in a listing, which is sorted by due time (`at`, in ms), then by acceptance
 * (`place`).
 */
export interface DelayedPlace {
  at: number;
  place: number;
}

/** Lists and deletes the delayed events of a topic. */
export class DelayedEvents {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Returns up to `limit` delayed events of a topic by due time, from behind the position `after`. A `client` must own
   * the topic.
   */
  list(topic: string, limit: number, after?: DelayedPlace, client?: string): Promise<Reply<'list_delayed'>> {
    return this.#partitions.ofTopic(topic).run('list_delayed', {
      topic,
      client,
      limit,
      maxBytes: MAX_PAGE_BYTES,
      ...(after && { afterMs: after.at, afterPlace: after.place }),
    });
  }

  /** Deletes a delayed event. A `client` must own the topic. */
  delete(topic: string, id: string, client?: string): Promise<Reply<'delete_delayed'>> {
    return this.#partitions.ofTopic(topic).run('delete_delayed', { topic, client, id });
  }
}
