import type { Config } from '../config.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { storedSettings, type WantedSettings } from './subscription_settings.ts';
import { type Flushing, TopicMarks } from './topic_marks.ts';

/** Time for which a replaced signing key still signs deliveries, beside the new one. */
const SIGNING_OVERLAP_MS = 86_400_000;

/** What a client asks for when it subscribes. */
export interface WantedSubscription extends WantedSettings {
  topics: string[];
  callback: string;
  uuid: string;
  /** The new signing key. The old key also signs for another day. Null ends signing; undefined changes nothing. */
  signingKey?: string | null | undefined;
}

type Limits = Pick<Config, 'laneLimit' | 'laneLimitMax' | 'maxTopics' | 'maxSubscribers'>;

/**
 * Begins and ends subscriptions. With several partitions, the outboxes of other partitions may have work for the
 * subscriber, such as events of a topic that it leaves. `outbox` does this work before a subscription changes.
 */
export class Subscriptions {
  readonly #partitions: Partitions;
  readonly #limits: Limits;
  readonly #marks: TopicMarks;
  readonly #outbox: Flushing;

  constructor(partitions: Partitions, limits: Limits, outbox: Flushing) {
    this.#partitions = partitions;
    this.#limits = limits;
    this.#marks = new TopicMarks(partitions);
    this.#outbox = outbox;
  }

  /** Subscribes to exactly these topics. Changes nothing if there would be too many subscribers or topics. */
  subscribe(token: string, wanted: WantedSubscription): Promise<Reply<'subscribe'>> {
    const partition = this.#partitions.ofSubscriber(token);
    const topics = [...new Set(wanted.topics)];
    const foreign = this.#marks.foreign(partition, topics);
    return this.#marks.correctAfter(partition, foreign, async () => {
      const hasRoom = await this.#marks.reserve(partition, foreign, this.#limits.maxTopics, this.#outbox);
      if (!hasRoom) return 'too_many_topics';
      const leftTopics = await this.#marks.flushLeft(this.#outbox, token, (topic) => !topics.includes(topic));
      const reply = await this.#store(partition, token, { ...wanted, topics }, foreign);
      await this.#marks.refreshLeft(partition, leftTopics);
      return reply;
    });
  }

  /** `partition` is the partition of the subscriber. `foreign` has the topics that are stored in other partitions. */
  #store(
    partition: Partition,
    token: string,
    wanted: WantedSubscription,
    foreign: readonly string[],
  ): Promise<Reply<'subscribe'>> {
    const { topics, callback, uuid, signingKey } = wanted;
    const { laneLimit, laneLimitMax, maxTopics, maxSubscribers } = this.#limits;
    return partition.run('subscribe', {
      token,
      callback,
      uuid,
      settings: storedSettings(wanted),
      signingKey: signingKey === null ? 'none' : signingKey,
      signingOverlapMs: SIGNING_OVERLAP_MS,
      topics: topics.filter((topic) => !foreign.includes(topic)),
      foreign,
      laneLimit,
      laneLimitMax,
      maxTopics,
      maxSubscribers,
    });
  }

  /** Ends one subscription. Queued events are still delivered. */
  async unsubscribe(token: string, topic: string): Promise<Reply<'unsubscribe'>> {
    const partition = this.#partitions.ofSubscriber(token);
    const home = this.#partitions.ofTopic(topic);
    const isForeign = home !== partition;
    const leftTopics = await this.#marks.flushLeft(this.#outbox, token, (each) => each === topic);
    const reply = await partition.run('unsubscribe', { token, topic, isForeign });
    await this.#marks.refreshLeft(partition, leftTopics);
    if (reply !== 'not_subscribed' || !isForeign) return reply;
    const exists = await home.command((redis, keys) => redis.sismember(keys.topics(), topic));
    return exists === 1 ? reply : 'topic_not_found';
  }
}
