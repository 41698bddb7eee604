import { isPassing } from '../errors.ts';
import { removeDoubles } from '../flow/triggers/moving_trigger.ts';
import { packJob } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { marksIn, TopicMarks } from '../subscribing/topic_marks.ts';
import { Walk } from './sweep/walk.ts';

interface CrossingParts {
  partition: Partition;
  partitions: Partitions;
  leaseMs: number;
}

/**
 * Repairs the data that must agree between partitions:
 *
 * - A topic must have a mark (a note) for each other partition that has subscribers of the topic, and no other marks.
 *   The bus passes the topic's events on to the marked partitions.
 * - An outbox that is not empty must have a job.
 * - A trigger must be in only one partition. The sweep of the control partition sees to that.
 *
 * The repairs are not reported as findings: an interrupted change of subscriptions, for example, may leave a needless
 * mark, and this is part of normal operation.
 */
export async function sweepCrossing(parts: CrossingParts, signal: AbortSignal): Promise<void> {
  const walk = new Walk(parts.partition, signal, []);
  await putOutboxJobs(walk, parts);
  const crossing = new Crossing(walk, parts.partitions);
  await crossing.refreshMarksHere();
  await crossing.refreshMarksElsewhere();
  if (parts.partition === parts.partitions.control) await removeDoubles(parts.partitions);
  if (crossing.error !== undefined) throw crossing.error;
}

/** Corrects marks between one partition and all others. Skips partitions that fail, for example if Redis is away. */
class Crossing {
  readonly #walk: Walk;
  readonly #partitions: Partitions;
  readonly #marks: TopicMarks;
  readonly #failed = new Set<Partition>();
  /** The first error of a partition that failed. */
  error: unknown;

  constructor(walk: Walk, partitions: Partitions) {
    this.#walk = walk;
    this.#partitions = partitions;
    this.#marks = new TopicMarks(partitions);
  }

  /**
   * Corrects the marks of this partition's topics. A mark says how many subscribers a topic has in another partition.
   * If there are none any more, the mark is removed.
   */
  async refreshMarksHere(): Promise<void> {
    const walk = this.#walk;
    for await (const members of walk.members('topics')) {
      const topics = members.map(String);
      const texts = await walk.ask((redis, keys) =>
        Promise.all(topics.map((topic) => walk.skippable(redis.hget(keys.topic(topic), 'elsewhere')))),
      );
      const marked = new Map<number, string[]>();
      for (const [index, topic] of topics.entries())
        for (const partition of marksIn(texts[index] ?? null).keys())
          marked.set(partition, [...(marked.get(partition) ?? []), topic]);
      for (const [index, names] of marked) {
        const other = this.#partitions.all[index];
        if (other && (await this.#hasData(other))) await this.#refresh(other, other, names);
      }
    }
  }

  /**
   * Returns false if a partition has failed, or has lost its data. A partition without its data seems to have no
   * subscribers, so the sweep would remove their marks. When a backup has brought the subscribers back, they would get
   * no events from other partitions until the next sweep.
   */
  async #hasData(other: Partition): Promise<boolean> {
    await this.#attempt(other, () => other.expectData());
    return !this.#failed.has(other);
  }

  /** Sets missing marks of topics that live in other partitions and have subscribers in this one. */
  async refreshMarksElsewhere(): Promise<void> {
    const walk = this.#walk;
    for await (const tokens of walk.members('subscribers')) {
      const topics = await walk.ask((redis, keys) =>
        Promise.all(
          tokens.map((token) => walk.skippable(redis.smembers(keys.subscriber_topics(String(token))))),
        ),
      );
      const names = new Set(topics.flatMap((each) => each ?? []));
      for (const [home, its] of Map.groupBy(names, (topic) => this.#partitions.ofTopic(topic)))
        await this.#refresh(home, walk.partition, its);
    }
  }

  /**
   * Corrects the marks that say how many subscribers these topics have in `partition`. If a key is unreadable, corrects
   * each topic alone, and skips those that fail.
   */
  async #refresh(other: Partition, partition: Partition, topics: string[]): Promise<void> {
    const refreshed = await this.#attempt(other, () =>
      this.#walk.skippable(this.#marks.refresh(partition, topics).then(() => true)),
    );
    if (refreshed || topics.length === 1 || this.#failed.has(other)) return;
    for (const topic of topics) await this.#refresh(other, partition, [topic]);
  }

  /** Does a step that needs the partition `other`, unless this partition has failed before. */
  async #attempt<T>(other: Partition, step: () => Promise<T>): Promise<T | undefined> {
    if (this.#failed.has(other)) return undefined;
    try {
      return await step();
    } catch (error) {
      if (!isPassing(error)) throw error;
      this.#failed.add(other);
      this.error ??= error;
      return undefined;
    }
  }
}

/**
 * Queues a job for each list of outbox entries that is not empty, so that the entries are moved. Skips a list whose job
 * is still queued, or is run by a living worker.
 */
async function putOutboxJobs(walk: Walk, { partitions, leaseMs }: CrossingParts): Promise<void> {
  const { keys } = walk.partition;
  const lists: [key: string, args: number[]][] = [
    [keys.outbox(), []],
    ...partitions.all.map(({ index }): [string, number[]] => [keys.outbox_aside(String(index)), [index]]),
  ];
  // Usually all lists are empty, and this one command is enough.
  if ((await walk.ask((redis) => redis.exists(...lists.map(([key]) => key)))) === 0) return;
  for (const [key, args] of lists) {
    const entries = await walk.ask((redis) => redis.llen(key));
    if (entries > 0) await walk.run('enqueue', { q: 'aux', job: packJob('outbox', args), leaseMs });
  }
}
