import { slicesOf } from '../chunks.ts';
import { ignoreFull } from '../errors.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/**
 * Empties outboxes. The outbox of a partition has work for other partitions, such as events for the queues of their
 * subscribers.
 */
export interface Flushing {
  /**
   * Does the work that the outbox of `home` has for the partition `to`, such as putting events into queues there. Work
   * that is added during the call may be left. Throws StorageUnavailable or StorageFull if `home` or `to` fails.
   */
  flush(home: Partition, to: Partition): Promise<void>;
}

/**
 * Matches a mark in the field `elsewhere` of a topic, such as `3:12:1700000000000000`: in partition 3 the topic has 12
 * subscribers, and the mark was set at this time (µs).
 */
const MARK = /(\d+):(\d+):(\d+)/g;

/**
 * Maximum topics that one script call marks. 500 take Redis about 3 ms. A sweep that marked 5000 in one call blocked it
 * for 26 ms.
 */
const TOPICS_PER_CALL = 500;

/**
 * Sets and removes the marks of topics. Each topic is stored in one partition, its home. A mark in the home says that
 * another partition has subscribers of the topic. The home then sends the events of the topic to that partition.
 *
 * A missing mark would lose events, a needless one only slows publishing a little. So marks are set before
 * subscriptions begin, and removed after they have ended:
 *
 *     subscriptions begin:  correctAfter( reserve ─▶ the script that begins them )
 *     subscriptions end:    flushLeft ─▶ the script that ends them ─▶ refreshLeft
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
   * Runs `change`, which begins subscriptions in `partition` to topics of other partitions. Then corrects the marks of
   * these topics, also if the change was refused.
   *
   * If the change fails, corrects the marks in those homes that can be reached, and throws the error of the change. If
   * the marks were not corrected, topics that the change has created would stay until the next sweep, and a client
   * whose calls fail could use up the maximum number of topics.
   */
  async correctAfter<T>(
    partition: Partition,
    topics: readonly string[],
    change: () => Promise<T>,
  ): Promise<T> {
    try {
      const result = await change();
      await this.refresh(partition, topics);
      return result;
    } catch (error) {
      const homes = [...this.#byHome(partition, topics)];
      await Promise.allSettled(homes.map(([home, names]) => refreshIn(home, partition, names)));
      throw error;
    }
  }

  /**
   * Marks topics of other partitions, to which a subscriber in `partition` is about to subscribe. Creates missing
   * topics. Returns false if there would be too many topics; some may be marked already.
   *
   * One of the topics may have been deleted just before. The deletion may still wait in the outbox of the topic's home,
   * and would end the new subscription later. So `outbox` carries out the deletion in `partition` first. Joins need no
   * `outbox`, because their subscriptions outlast the deletion of a topic.
   */
  async reserve(
    partition: Partition,
    topics: readonly string[],
    maxTopics: number,
    outbox?: Flushing,
  ): Promise<boolean> {
    for (const [home, names] of this.#byHome(partition, topics)) {
      const subscribers = await countSubscribers(partition, names);
      const marks = names.map((topic, index) => ({ topic, subscribers: (subscribers[index] ?? 0) + 1 }));
      const outcome = await setMarks(home, partition, marks, maxTopics);
      if (outcome === 'too_many_topics') return false;
      if (outcome === 'ends_wait') await outbox?.flush(home, partition);
    }
    return true;
  }

  /**
   * Called before a subscriber leaves topics (`isLeft` tells which). Events of these topics may wait in the outboxes of
   * other partitions, and would be lost after the subscription has ended. So they are put into the subscriber's queue
   * first. Returns those left topics that are stored in other partitions. Call `refreshLeft` with them when the
   * subscriptions have ended.
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
   * Corrects the marks of these topics for `partition`: sets the number of subscribers that the topic has in
   * `partition`, or removes the mark if there are none. Deletes a topic that then has no publisher, no subscribers and
   * no marks.
   */
  async refresh(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics)) await refreshIn(home, partition, names);
  }

  /**
   * Does the same as `refresh`, after subscriptions to these topics have ended. If the Redis of a home has no memory to
   * set a mark, goes on with the other homes. The mark then says that the topic has more subscribers than it has, which
   * does no harm. An error would stop a subscriber half-way in leaving topics, although leaving frees memory.
   */
  async refreshLeft(partition: Partition, topics: readonly string[]): Promise<void> {
    for (const [home, names] of this.#byHome(partition, topics))
      await refreshIn(home, partition, names).catch(ignoreFull);
  }

  /** Yields the topics of each home, at most TOPICS_PER_CALL at a time. */
  *#byHome(partition: Partition, topics: readonly string[]): Generator<[Partition, string[]]> {
    const foreign = this.foreign(partition, topics);
    for (const [home, names] of Map.groupBy(foreign, (topic) => this.#partitions.ofTopic(topic)))
      for (const slice of slicesOf(names, TOPICS_PER_CALL)) yield [home, slice];
  }
}

async function refreshIn(home: Partition, partition: Partition, names: readonly string[]): Promise<void> {
  // A subscription may begin after the count below found 0 subscribers. This subscription sets the mark again, with a
  // new time. So `unmark_topics` removes only marks that still have the time that is read here.
  const marks = await readMarks(home, names, partition.index);
  const counts = await countSubscribers(partition, names);
  const gone = names.flatMap((topic, index) => {
    const mark = marks[index];
    return mark && counts[index] === 0 ? { topic, markedUs: mark.markedUs } : [];
  });
  const there = names.flatMap((topic, index) => {
    const subscribers = counts[index] ?? 0;
    return subscribers > 0 ? { topic, subscribers } : [];
  });
  // Marks are removed first, because that needs no memory.
  if (gone.length > 0) await home.run('unmark_topics', { partition: String(partition.index), topics: gone });
  // A mark is set again even if its number is right, so that it has a new time. Another process may have found 0
  // subscribers just before. That process then does not remove the mark, because it removes only marks with the old
  // time.
  if (there.length > 0) await setMarks(home, partition, there);
}

/**
 * Marks topics, which live in the partition `home`, as topics that have subscribers in `partition`. Changes nothing if
 * `home` would then have more than `maxTopics` topics.
 */
function setMarks(
  home: Partition,
  partition: Partition,
  topics: Arguments<'mark_topics'>['topics'],
  maxTopics = Number.MAX_SAFE_INTEGER,
): Promise<Reply<'mark_topics'>> {
  return home.run('mark_topics', { partition: String(partition.index), maxTopics, topics });
}

interface Mark {
  subscribers: number;
  /** When the mark was last set (µs). */
  markedUs: string;
}

/**
 * Returns the marks that topics of the partition `home` have for the partition with the index `partition`, in the order
 * of `topics`. Undefined stands for a topic without such a mark.
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
 * Parses the field `elsewhere` of a topic. Returns the marks in a Map by the index of the partition that has the
 * subscribers.
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
