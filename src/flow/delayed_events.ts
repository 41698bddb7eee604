import type { Reply } from '../store/contracts.ts';
import type { Partitions } from '../store/partitions.ts';

/** Number of bytes of events after which a page ends. */
const MAX_PAGE_BYTES = 1_048_576;

/** Where a delayed event stands among those of its topic: by its due time (ms), then by the order of acceptance. */
export interface DelayedPlace {
  at: number;
  place: number;
}

/** The delayed events of topics, for those who may see and delete them. */
export class DelayedEvents {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Returns up to `limit` events behind a place, sorted by their due time. If given, `client` must own the topic. */
  list(topic: string, limit: number, after?: DelayedPlace, client?: string): Promise<Reply<'list_delayed'>> {
    return this.#partitions.ofTopic(topic).run('list_delayed', {
      ...{ topic, client, limit, maxBytes: MAX_PAGE_BYTES },
      ...(after && { afterMs: after.at, afterPlace: after.place }),
    });
  }

  /** Deletes an event that waits. If given, `client` must own the topic. */
  delete(topic: string, id: string, client?: string): Promise<Reply<'delete_delayed'>> {
    return this.#partitions.ofTopic(topic).run('delete_delayed', { topic, client, id });
  }
}
