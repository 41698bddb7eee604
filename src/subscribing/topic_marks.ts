import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/**
 * Moves events from the outbox of one partition to another partition. The outbox has the events that other partitions
 * have not got yet.
 */
export interface Flushing {
  /**
   * Resolves when the partition `to` has applied all entries that now wait for it in the outbox of `home`: events, and
   * ends of subscriptions. Throws StorageUnavailable or StorageFull if one of the two partitions cannot be reached or
   * has no memory left.
   */
  flush(home: Partition, to: Partition): Promise<void>;
}

/**
 * Matches a mark in the field `elsewhere` of a topic. A mark says that another partition has subscribers of the topic.
 * It has the index of that partition, the number of these subscribers, and the time (µs) when the mark was set.
 */
const MARK = /(\d+):(\d+):(\d+)/g;

/**
 * Sets and removes the marks of topics. A topic lives in one partition, its home. A mark in the home says, for example,
 * that partition 3 has subscribers of the topic, so that events are passed on to partition 3. Without the mark these
 * subscribers would get no events, so the mark is set before the first subscription. A needless mark only makes
 * publishing a little slower. Before a mark is removed, it is read, and then the subscribers in partition 3 are
 * counted. The mark is removed only if there are none, and if nobody has set the mark again since it was read.
 */
export class TopicMarks {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Returns those of the topics that live in another partition than `partition`. */
  foreign(partition: Partition, topics: readonly string[]): string[] {
    return topics.filter((topic) => this.#partitions.ofTopic(topic) !== partition);
  }

  /**
   * Marks topics that will have one more subscriber in a partition, and creates those that do not exist. The mark makes
   * publishing pass events of the topic on to that partition. Call this before subscribing, and `refresh` afterwards.
   * Returns false if there would be too many topics. If this call or the subscribing fails, the next sweep deletes the
   * topics that were created.
   */
  async reserve(partition: Partition, topics: readonly string[], maxTopics: number): Promise<boolean> {
    for (const [home, names] of this.#byHome(partition, topics)) {
      const counts = await countSubscribers(partition, names);
      const marks = names.map((topic, index) => ({ topic, subscribers: (counts[index] ?? 0) + 1 }));
      const marked = home.run('mark_topics', {
        partition: String(partition.index),
        maxTopics,
        topics: marks,
      });
      if ((await marked) === 'too_many_topics') return false;
    }
    return true;
  }

  /**
   * Counts the subscribers that these topics have in `partition`, and corrects the marks that record these numbers. The
   * marks are stored in the partitions where the topics live. If a topic loses its last mark, and has neither a
   * publisher nor a subscriber, it is deleted.
   */
  async refresh(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics)) await refreshIn(home, partition, names);
  }

  #byHome(partition: Partition, topics: readonly string[]): [Partition, string[]][] {
    return [...Map.groupBy(this.foreign(partition, topics), (topic) => this.#partitions.ofTopic(topic))];
  }
}

async function refreshIn(home: Partition, partition: Partition, names: readonly string[]): Promise<void> {
  // A mark says that a topic has subscribers in `partition`. Below, a mark is removed if there are none. But a
  // subscriber may come just after the count, and set the mark again, with a new time. So the marks are read before the
  // count, and `unmark_topics` removes a mark only if its time is still the same.
  const marks = await readMarks(home, names, partition.index);
  const counts = await countSubscribers(partition, names);
  // Even a correct mark is set again, to change its time. Otherwise another process, which has counted just before the
  // first subscriber came, would remove the mark. `unmark_topics` does not remove it if its time is new.
  const there = names.flatMap((topic, index) => {
    const subscribers = counts[index] ?? 0;
    return subscribers > 0 ? { topic, subscribers } : [];
  });
  const gone = names.flatMap((topic, index) => {
    const mark = marks[index];
    return mark && counts[index] === 0 ? { topic, markedUs: mark.markedUs } : [];
  });
  const to = { partition: String(partition.index) };
  if (there.length > 0)
    await home.run('mark_topics', { ...to, maxTopics: Number.MAX_SAFE_INTEGER, topics: there });
  if (gone.length > 0) await home.run('unmark_topics', { ...to, topics: gone });
}

/** A note that is stored with a topic: how many subscribers the topic has in another partition. */
interface Mark {
  subscribers: number;
  /** The time when this note was last written, in µs. */
  markedUs: string;
}

/**
 * Returns the marks that these topics have for the partition with the index `partition`, in the order of the topics. A
 * mark says that this partition has subscribers of the topic. It is stored in `home`, where the topics live. Undefined
 * stands for no mark.
 */
async function readMarks(
  home: Partition,
  topics: readonly string[],
  partition: number,
): Promise<(Mark | undefined)[]> {
  const texts = await home.command((redis, keys) =>
    Promise.all(topics.map((topic) => redis.hget(keys.topic(topic), 'elsewhere'))),
  );
  return texts.map((text) => marksIn(text).get(partition));
}

/**
 * Reads the field `elsewhere` of a topic: a mark for each other partition that has subscribers of the topic. Returns
 * the marks by the index of that partition.
 */
export function marksIn(text: string | null): Map<number, Mark> {
  const marks = [...(text ?? '').matchAll(MARK)];
  return new Map(
    marks.map(([, partition, subscribers, markedUs = '']) => [
      Number(partition),
      { subscribers: Number(subscribers), markedUs },
    ]),
  );
}

function countSubscribers(partition: Partition, topics: readonly string[]): Promise<number[]> {
  return partition.command((redis, keys) =>
    Promise.all(topics.map((topic) => redis.scard(keys.topic_subscribers(topic)))),
  );
}
