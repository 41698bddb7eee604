import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Empties outboxes. The outbox of a partition lists what other partitions must do, such as queue events. */
export interface Flushing {
  /**
   * Resolves when the partition `to` has done everything that the outbox of `home` lists for it at the time of this
   * call. Throws StorageUnavailable or StorageFull if one of these two partitions fails.
   */
  flush(home: Partition, to: Partition): Promise<void>;
}

/**
 * Matches a mark (see TopicMarks) in the field `elsewhere`: a partition, its number of subscribers, and when the mark
 * was set (µs).
 */
const MARK = /(\d+):(\d+):(\d+)/g;

/**
 * Sets and removes the marks of topics. A mark is a note in the partition that stores a topic, its home. For example, a
 * mark says that partition 3 has subscribers of the topic, so that the home passes on events to partition 3.
 *
 * A missing mark would lose events, so a mark is set before the first subscription. A needless mark only slows
 * publishing a little. The mark for partition 3 is removed if a count finds no subscribers there, unless the mark was
 * set again meanwhile.
 */
export class TopicMarks {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Returns those of the given topics that are not stored in `partition`. */
  foreign(partition: Partition, topics: readonly string[]): string[] {
    return topics.filter((topic) => this.#partitions.ofTopic(topic) !== partition);
  }

  /**
   * Prepares the subscription of a subscriber in `partition` to topics that live in other partitions, their homes. Sets
   * marks there, so that the homes pass on events to `partition`, and creates topics that do not exist. Call this
   * before subscribing, and `refresh` afterwards.
   *
   * Returns undefined, and leaves no new mark, if there would be too many topics. Otherwise returns the homes whose
   * outboxes the caller must flush to `partition` before subscribing. Such an outbox may still have to tell `partition`
   * that a topic was removed. If that came after the subscription to a new topic of the same name, it would end the new
   * subscription too.
   */
  async reserve(
    partition: Partition,
    topics: readonly string[],
    maxTopics: number,
  ): Promise<Partition[] | undefined> {
    const toFlush: Partition[] = [];
    for (const [home, names] of this.#byHome(partition, topics)) {
      const counts = await countSubscribers(partition, names);
      const marks = names.map((topic, index) => ({ topic, subscribers: (counts[index] ?? 0) + 1 }));
      const marked = await home.run('mark_topics', {
        partition: String(partition.index),
        maxTopics,
        topics: marks,
      });
      if (marked === 'too_many_topics') {
        // `refresh` removes the marks (notes that `partition` has subscribers) that earlier rounds of this loop have
        // set.
        await this.refresh(partition, topics);
        return undefined;
      }
      if (marked === 'ends_wait') toFlush.push(home);
    }
    return toFlush;
  }

  /**
   * Counts the subscribers that these topics have in `partition`, and corrects the topics' marks for `partition`, which
   * say how many there are. A topic that has no publisher and no subscribers is deleted with its last mark.
   */
  async refresh(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics)) await refreshIn(home, partition, names);
  }

  #byHome(partition: Partition, topics: readonly string[]): [Partition, string[]][] {
    return [...Map.groupBy(this.foreign(partition, topics), (topic) => this.#partitions.ofTopic(topic))];
  }
}

async function refreshIn(home: Partition, partition: Partition, names: readonly string[]): Promise<void> {
  // The marks (notes that `partition` has subscribers of a topic) are read before the subscribers are counted. If a
  // topic has no subscribers, its mark is removed below, but only if the mark is the same as before the count. If a
  // subscriber has come meanwhile, the mark has a new time, and stays.
  const marks = await readMarks(home, names, partition.index);
  const counts = await countSubscribers(partition, names);
  // Even a correct mark is set again, because this gives it a new time. Otherwise another process that counted 0
  // subscribers a moment ago would remove the mark.
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

interface Mark {
  subscribers: number;
  /** When the mark was last set (µs). If this changes while `refreshIn` counts subscribers, the mark must stay. */
  markedUs: string;
}

/**
 * For each topic of the partition `home`, returns the note (mark) about its subscribers in the partition with the index
 * `partition`, or undefined if there is none.
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
 * Parses the field `elsewhere` of a topic, which names the other partitions with subscribers of the topic. Returns an
 * entry (a mark) for each of them, by the index of the partition.
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
