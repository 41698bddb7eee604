import { z } from 'zod';
import { slicesOf } from '../chunks.ts';
import { ignoreFull } from '../errors.ts';
import { seriesOf } from '../metrics/series.ts';
import { KeptList } from '../routing/kept_list.ts';
import { NAMED } from '../routing/schemas.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import { delayedCounts } from '../store/delayed_counts.ts';
import type { Commands, Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { namedFields, replies } from '../store/replies.ts';
import { sumOf } from '../sum.ts';
import { type Flushing, marksIn } from './topic_marks.ts';

/** Maximum topics that one pipeline reads; 500 take this process about 1 ms. */
const TOPICS_PER_PIPELINE = 500;

export const TOPIC = z
  .object({
    name: z.string(),
    publisher: z.string().nullable().describe('The client that owns it; null before the first publish.'),
    events: z.int().describe('How many events were ever published to it.'),
    delayed: z.int().describe('How many of its events wait for their time.'),
    dropped: z
      .object({
        events: z.int(),
        from: z.int().describe('When the first of them was due.'),
        to: z.int().describe('When the last of them was due.'),
      })
      .nullable()
      .describe('Delayed events that were dropped for want of memory.'),
    lately: z
      .object({
        rate: z.number().describe('Events that are published to it a second.'),
        as_of: z.int().describe('When the sample was made.'),
      })
      .nullable()
      .optional()
      .describe('In sorted listings alone; null before the first sample with an event of it.'),
  })
  .register(NAMED, { name: 'Topic' });
export type Topic = z.infer<typeof TOPIC>;

/**
 * About how many subscribers of a topic are listed from each partition. (A topic can have thousands.) Redis does not
 * promise an exact number.
 */
const NAMED_SUBSCRIBERS = 100;

interface TopicSubscribers {
  /** Number of subscribers of the topic. A join that has the topic as a source counts as one. */
  count: number;
  tokens: string[];
}

export type GiveLimits = Omit<Arguments<'give_topic'>, 'topic' | 'client'>;

export class Topics {
  readonly #partitions: Partitions;
  readonly #outbox: Flushing;
  readonly #list: KeptList<string>;

  /**
   * With several partitions, `outbox` completes the removal of a topic. It first sends the other partitions the events
   * of the topic that wait for them, and then ends the subscriptions there.
   */
  constructor(partitions: Partitions, outbox: Flushing) {
    this.#partitions = partitions;
    this.#outbox = outbox;
    this.#list = new KeptList({
      count: async () => sumOf(await partitions.ask((redis, keys) => redis.scard(keys.topics()))),
      read: () => this.#names(),
      placeOf: (name) => name,
    });
  }

  async has(name: string): Promise<boolean> {
    const has = await this.#partitions
      .ofTopic(name)
      .command((redis, keys) => redis.sismember(keys.topics(), name));
    return has === 1;
  }

  async list(): Promise<Topic[]> {
    return this.read(await this.#names());
  }

  /** Returns the names of all topics, sorted. The list may be up to ten seconds old (KeptList). */
  names(): Promise<readonly string[]> {
    return this.#list.sorted();
  }

  async #names(): Promise<string[]> {
    return (await this.#partitions.ask((redis, keys) => redis.smembers(keys.topics()))).flat();
  }

  /** Returns these topics, sorted by name, without those that do not exist or cannot be read. */
  async read(names: readonly string[]): Promise<Topic[]> {
    const parts = [...Map.groupBy(names, (name) => this.#partitions.ofTopic(name))];
    const topics = await Promise.all(parts.map(([partition, names]) => readTopics(partition, names)));
    return topics.flat().sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /**
   * Lists the subscribers of a topic: those among `candidates` or, without `candidates`, about NAMED_SUBSCRIBERS of
   * each partition.
   */
  async subscribers(name: string, candidates?: readonly string[]): Promise<TopicSubscribers> {
    const parts = await this.#partitions.ask(
      async (redis, keys) => {
        const key = keys.topic_subscribers(name);
        const [count, tokens] = await Promise.all([
          redis.scard(key),
          candidates ? membersAmong(redis, key, candidates) : firstMembers(redis, key),
        ]);
        return { count, tokens };
      },
      await this.#withSubscribers(name),
    );
    const tokens = parts.flatMap((part) => part.tokens).sort();
    return { count: sumOf(parts.map((part) => part.count)), tokens };
  }

  /**
   * Returns the partition that stores a topic (its home), and the other partitions that have subscribers of this topic.
   */
  async #withSubscribers(name: string): Promise<Partition[]> {
    const { all } = this.#partitions;
    const home = this.#partitions.ofTopic(name);
    if (all.length === 1) return [home];
    const marks = await home.command((redis, keys) => redis.hget(keys.topic(name), 'elsewhere'));
    return [home, ...[...marksIn(marks).keys()].map((index) => all[index] as Partition)];
  }

  /**
   * Removes a topic with its delayed events and its subscriptions. Events in queues are still delivered. If `client` is
   * given, removes the topic only if this client owns it. In a partition that has no memory, the subscriptions end only
   * when there is room. Throws StorageUnavailable if a partition is away; the topic may be removed even then.
   */
  async remove(name: string, client?: string): Promise<Omit<Reply<'remove_topic'>, 'partitions'>> {
    const series = seriesOf({ topic: name });
    const home = this.#partitions.ofTopic(name);
    const { partitions, ...reply } = await home.run('remove_topic', { topic: name, client, series });
    this.#list.forget();
    // The topic is removed by now, and the job of the outbox ends the other subscriptions later. If StorageFull were
    // thrown, its answer would say that nothing was stored, and a repeat would not find the topic.
    for (const index of partitions)
      await this.#outbox.flush(home, this.#partitions.all[index] as Partition).catch(ignoreFull);
    return reply;
  }

  /**
   * Makes a client the publisher of a topic. The topic keeps its subscriptions and delayed events. Changes nothing if
   * the client is the publisher already, or would exceed one of the `limits`.
   */
  give(name: string, client: string, limits: GiveLimits): Promise<Reply<'give_topic'>> {
    return this.#partitions.ofTopic(name).run('give_topic', { ...limits, topic: name, client });
  }
}

async function firstMembers(redis: Commands, key: string): Promise<string[]> {
  const [, tokens] = await redis.sscan(key, 0, 'COUNT', NAMED_SUBSCRIBERS);
  return tokens;
}

async function membersAmong(redis: Commands, key: string, candidates: readonly string[]): Promise<string[]> {
  const flags = await redis.smismember(key, ...candidates);
  return candidates.filter((_, index) => flags[index] === 1);
}

const STORED_FIELDS = ['publisher', 'counter', 'dropped_events', 'dropped_from', 'dropped_to'] as const;

async function readTopics(partition: Partition, names: readonly string[]): Promise<Topic[]> {
  const delayed = await delayedCounts(partition);
  return partition.command(async (redis, keys) => {
    const topics: Topic[] = [];
    // One pipeline reads many topics, because 10,000 single commands would delay other requests by 150 ms.
    for (const slice of slicesOf(names, TOPICS_PER_PIPELINE)) {
      const [exist, ...hashes] = (await replies(
        redis.pipeline([
          ['smismember', keys.topics(), ...slice],
          ...slice.map((name) => ['hmget', keys.topic(name), ...STORED_FIELDS]),
        ]),
        partition.skip,
      )) as [number[] | undefined, ...((string | null)[] | undefined)[]];
      for (const [index, name] of slice.entries()) {
        const hash = hashes[index];
        if (exist?.[index] === 1 && hash) topics.push(topicOf(name, hash, delayed.get(name) ?? 0));
      }
    }
    return topics;
  });
}

function topicOf(name: string, values: readonly (string | null)[], delayed: number): Topic {
  const hash = namedFields(STORED_FIELDS, values);
  return {
    name,
    publisher: hash.publisher || null,
    events: Number(hash.counter ?? 0),
    delayed,
    dropped: droppedIn(hash),
  };
}

function droppedIn(hash: Partial<Record<(typeof STORED_FIELDS)[number], string>>): Topic['dropped'] {
  const { dropped_events: events, dropped_from: from = 0, dropped_to: to = 0 } = hash;
  return events ? { events: Number(events), from: Number(from), to: Number(to) } : null;
}
