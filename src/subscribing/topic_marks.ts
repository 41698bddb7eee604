import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Empties outboxes. A partition's outbox lists work for other partitions, such as putting events into queues. */
export interface Flushing {
  /**
   * Has the partition `to` do all the work that waits for it in the outbox of `home`. Work that comes during the call
   * may be left. Throws StorageUnavailable or StorageFull if `home` or `to` fails.
   */
  flush(home: Partition, to: Partition): Promise<void>;
}

/**
 * Matches a mark in the field `elsewhere` of a topic: the index of another partition, how many subscribers the topic
 * has there, and when the mark was set (µs).
 */
const MARK = /(\d+):(\d+):(\d+)/g;

/**
 * Sets and removes the marks of topics. Each topic is stored in one partition, its home. A mark is a note in the home
 * that another partition has subscribers of the topic, so that the home passes on events to that partition.
 *
 * A missing mark would lose events, so a mark is set before the first subscription. A needless mark only slows
 * publishing a little. It is removed when the other partition is found to have no subscribers of the topic.
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
   * Prepares the subscription of a subscriber in `partition` to topics whose homes are other partitions. Sets marks in
   * the homes, so that they pass on events to `partition`, and creates missing topics. Call `refresh` after
   * subscribing. Returns false, and leaves no new mark, if there would be too many topics.
   *
   * The outbox of a home may still have the removal of an older topic of the same name, which would end the new
   * subscription. So that outbox is flushed to `partition` first. Joins need no `outbox`, because their subscriptions
   * outlast the removal of a topic.
   */
  async reserve(
    partition: Partition,
    topics: readonly string[],
    maxTopics: number,
    outbox?: Flushing,
  ): Promise<boolean> {
    for (const [home, names] of this.#byHome(partition, topics)) {
      const counts = await countSubscribers(partition, names);
      const marks = names.map((topic, index) => ({ topic, subscribers: (counts[index] ?? 0) + 1 }));
      const marked = await home.run('mark_topics', {
        partition: String(partition.index),
        maxTopics,
        topics: marks,
      });
      if (marked === 'too_many_topics') {
        // This home refuses more topics. The loop may have set marks in other homes already, which `refresh` corrects.
        await this.refresh(partition, topics);
        return false;
      }
      if (marked === 'ends_wait') await outbox?.flush(home, partition);
    }
    return true;
  }

  /**
   * Call this before a subscriber leaves topics (`isLeft`). Moves the topics' accepted events from the outboxes of
   * other partitions to the subscriber's queue, because they would be lost after the end of the subscription. Returns
   * the topics that live in other partitions. The caller must `refresh` their marks when the subscriptions have ended.
   */
  async flushLeft(outbox: Flushing, token: string, isLeft: (topic: string) => boolean): Promise<string[]> {
    if (this.#partitions.all.length === 1) return [];
    const partition = this.#partitions.ofSubscriber(token);
    const topics = await partition.command((redis, keys) => redis.smembers(keys.subscriber_topics(token)));
    const leftTopics = this.foreign(partition, topics.filter(isLeft));
    const homes = new Set(leftTopics.map((topic) => this.#partitions.ofTopic(topic)));
    for (const home of homes) await outbox.flush(home, partition);
    return leftTopics;
  }

  /**
   * Corrects the marks that these topics have for `partition`. A mark has the number of the topic's subscribers there,
   * and is removed if there are none. A topic that is left without publisher, subscribers and marks is deleted.
   */
  async refresh(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics)) await refreshIn(home, partition, names);
  }

  #byHome(partition: Partition, topics: readonly string[]): [Partition, string[]][] {
    return [...Map.groupBy(this.foreign(partition, topics), (topic) => this.#partitions.ofTopic(topic))];
  }
}

async function refreshIn(home: Partition, partition: Partition, names: readonly string[]): Promise<void> {
  // The mark of a topic without subscribers is removed below, but only if it still has the time that is read here. If a
  // subscription begins after the count, it sets the mark again, with a new time.
  const marks = await readMarks(home, names, partition.index);
  const counts = await countSubscribers(partition, names);
  // Even a correct mark is set again, to give it a new time. Otherwise another process that has just counted 0
  // subscribers would remove it.
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
  /** When the mark was last set (µs). `refreshIn` removes a mark only if this time has not changed during its count. */
  markedUs: string;
}

/**
 * Returns the marks that topics of the partition `home` have for another partition, whose index is `partition`. The
 * result is in the order of `topics`, with undefined for a topic without such a mark.
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
 * Parses the field `elsewhere` of a topic. Returns its marks, each by the index of the partition that has subscribers
 * of the topic.
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
