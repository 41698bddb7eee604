import type { Keyspace } from '../redis/keys.ts';
import type { Commands, Store } from '../redis/store.ts';

/** How many batches one script call drops: a few milliseconds of Redis. */
const DROP_SLICE = 500;

/** What a client asks for. What is left out keeps its old value; for a new subscriber 500 ms and 100 events. */
export interface Subscription {
  topics: string[];
  callback: string;
  uuid: string;
  timeoutMs?: number | undefined;
  maxEvents?: number | undefined;
}

/** A subscriber as the API shows it. Times in ms since the Unix epoch, by Redis's clock. */
export interface SubscriberReport {
  subscriber: string;
  callback: string;
  max_events: number;
  timeout: number;
  topics: string[];
  health_points: number;
  last_attempted_at: number | null;
  /** Delivered ever; queued now; creation of the oldest queued batch. */
  events: { sent: number; queued: number; oldest: number | null };
}

export type UnsubscribeOutcome = 'ok' | 'subscriber_not_found' | 'topic_not_found' | 'not_subscribed';

/** Subscribers and the topics that they are subscribed to. */
export class Subscriptions {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Makes or changes the subscriber, subscribed to exactly these topics. Counts for the next event accepted. */
  async subscribe(token: string, wanted: Subscription): Promise<void> {
    const { callback, uuid, timeoutMs, maxEvents, topics } = wanted;
    await this.#store.run('subscribe', token, callback, uuid, timeoutMs ?? '', maxEvents ?? '', ...topics);
  }

  /** Ends one subscription; what is queued is still delivered. */
  async unsubscribe(token: string, topic: string): Promise<UnsubscribeOutcome> {
    return String(await this.#store.run('unsubscribe', token, topic)) as UnsubscribeOutcome;
  }

  /**
   * Forgets the subscriber and drops its queue. Answers how many events were dropped; undefined if there was none.
   * A batch that is being delivered at that moment still arrives.
   */
  async remove(token: string): Promise<number | undefined> {
    const [found, untilMs] = (await this.#store.run('remove_subscriber', token)) as [number, number];
    if (found !== 1) return undefined;
    let dropped = 0;
    for (;;) {
      const reply = await this.#store.run('drop_queue', token, DROP_SLICE, untilMs);
      const [batches, events] = reply as [number, number];
      dropped += events;
      if (batches < DROP_SLICE) return dropped;
    }
  }

  /** Reports one subscriber, or all, by token. */
  async list(token?: string): Promise<SubscriberReport[]> {
    return this.#store.command(async (redis, keys) => {
      const tokens = token === undefined ? (await redis.smembers(keys.subscribers())).sort() : [token];
      const reports = await Promise.all(tokens.map((each) => report(redis, keys, each)));
      return reports.filter((each) => each !== undefined);
    });
  }
}

async function report(redis: Commands, keys: Keyspace, token: string): Promise<SubscriberReport | undefined> {
  const [hash, topics, queued, oldest] = await Promise.all([
    redis.hgetall(keys.subscriber(token)),
    redis.smembers(keys.subscriber_topics(token)),
    redis.hget(keys.gauge_events(), token),
    redis.zrange(keys.batches_queued(token), '0', '0', 'WITHSCORES'),
  ]);
  if (hash.callback === undefined) return undefined;
  return {
    subscriber: token,
    callback: hash.callback,
    max_events: Number(hash.max_events ?? 100),
    timeout: Number(hash.timeout ?? 500),
    topics: topics.sort(),
    health_points: Number(hash.health_points ?? 100),
    last_attempted_at: hash.last_attempted_at === undefined ? null : Number(hash.last_attempted_at),
    events: {
      sent: Number(hash.sent ?? 0),
      queued: Number(queued ?? 0),
      oldest: oldest[1] === undefined ? null : Number(oldest[1]),
    },
  };
}
