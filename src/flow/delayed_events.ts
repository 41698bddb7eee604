import type { Reply } from '../store/contracts.ts';
import type { Partitions } from '../store/partitions.ts';

/** A page ends with the event with which the texts of its events reach this many bytes. */
const MAX_PAGE_BYTES = 1_048_576;

/** Where a delayed event stands among those of its topic: by its time (ms), and by the order of acceptance. */
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

  /** Returns the events behind a place, at most `limit`, in the order in which they are due. A `client` must own the topic. */
  list(topic: string, limit: number, after?: DelayedPlace, client?: string): Promise<Reply<'list_delayed'>> {
    return this.#partitions.ofTopic(topic).run('list_delayed', {
      ...{ topic, client, limit, maxBytes: MAX_PAGE_BYTES },
      ...(after && { afterMs: after.at, afterPlace: after.place }),
    });
  }

  /** Deletes an event that waits. A `client` must own the topic. */
  delete(topic: string, id: string, client?: string): Promise<Reply<'delete_delayed'>> {
    return this.#partitions.ofTopic(topic).run('delete_delayed', { topic, client, id });
  }
}
