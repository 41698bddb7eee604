import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Moves the entries that one partition has in its outbox for another. */
export interface Flushing {
  /** Resolves when `to` has applied all entries that `home` has for it now. Throws as Partition does. */
  flush(home: Partition, to: Partition): Promise<void>;
}

/** A mark in the `elsewhere` field of a topic: partition, number of subscribers, time (µs). */
const MARK = /(\d+):(\d+):(\d+)/g;

/**
 * Sets and removes marks. A topic lives in one partition, its home. There it has a mark for each other partition that
 * has subscribers of the topic, so that a publish reaches these subscribers. Without its mark, a partition would get no
 * events; a needless mark only costs a visit for each publish. So a mark is set before the first subscription. It is
 * removed only if it has not been set again since its partition was found to have no subscriber of the topic.
 */
export class TopicMarks {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /** Returns the topics in the list whose home is another partition than this one. */
  foreign(partition: Partition, topics: readonly string[]): string[] {
    return topics.filter((topic) => this.#partitions.ofTopic(topic) !== partition);
  }

  /**
   * Marks the partition as having one subscriber more of these topics, and creates topics that do not exist. Call this
   * before subscribing, and `refresh` afterwards. Returns false if there would be too many topics; the next sweep deletes
   * topics that were created in vain.
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
   * Corrects the partition's marks at these topics. Deletes topics that have no publisher and no subscriber any more.
   */
  async refresh(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics)) await refreshIn(home, partition, names);
  }

  #byHome(partition: Partition, topics: readonly string[]): [Partition, string[]][] {
    return [...Map.groupBy(this.foreign(partition, topics), (topic) => this.#partitions.ofTopic(topic))];
  }
}

async function refreshIn(home: Partition, partition: Partition, names: readonly string[]): Promise<void> {
  // The marks are read before the subscribers: a subscription in between sets its mark anew.
  const marks = await readMarks(home, names, partition.index);
  const counts = await countSubscribers(partition, names);
  // A mark that is right is set anew too: whoever found nobody before this subscription cannot remove it then.
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
  /** When the mark was set (µs). A mark that was set again has a later time. */
  markedUs: string;
}

/** Returns, for each topic that lives in `home`, its mark for the other `partition`; undefined if there is none. */
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

/** Returns the marks in the field `elsewhere` of a topic, by partition. */
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
