import type { DeadLetters } from '../delivering/dead_letters.ts';
import type { Reply } from '../store/contracts.ts';
import type { Store } from '../store/store.ts';
import { readReport, type SubscriberReport, type SubscriptionDefaults } from './subscriber_report.ts';

/** How many batches one script call drops: a few milliseconds of Redis. */
const DROP_SLICE = 500;

/** A replaced signing key keeps signing beside the new one for this long. */
const SIGNING_OVERLAP_MS = 86_400_000;

/** What a client asks for. A setting that is left out keeps its value; a new subscriber gets the default. */
export interface Subscription {
  topics: string[];
  callback: string;
  uuid: string;
  timeoutMs?: number | undefined;
  maxEvents?: number | undefined;
  ordered?: boolean | undefined;
  maxInFlight?: number | undefined;
  maxAttempts?: number | undefined;
  maxAgeMs?: number | undefined;
  /**
   * The key that signs deliveries from now on; earlier keys keep signing for a day. Null ends all signing.
   */
  signingKey?: string | null | undefined;
}

/** Limits on the whole bus. */
export interface Room {
  maxTopics: number;
  maxSubscribers: number;
}

export type SubscribeOutcome = Reply<'subscribe'>;
export type UnsubscribeOutcome = Reply<'unsubscribe'>;

/** Subscribers and the topics that they are subscribed to. */
export class Subscriptions {
  readonly #store: Store;
  readonly #defaults: SubscriptionDefaults & Room;
  readonly #deadLetters: DeadLetters;

  constructor(store: Store, defaults: SubscriptionDefaults & Room, deadLetters: DeadLetters) {
    this.#store = store;
    this.#defaults = defaults;
    this.#deadLetters = deadLetters;
  }

  /**
   * Creates or changes a subscriber, subscribed to exactly these topics, from the next accepted event on.
   * Changes nothing if a limit on subscribers or topics would be exceeded.
   */
  async subscribe(token: string, wanted: Subscription): Promise<SubscribeOutcome> {
    const { ordered, signingKey, topics } = wanted;
    const { laneLimitMax, maxTopics, maxSubscribers } = this.#defaults;
    return this.#store.run('subscribe', {
      ...wanted,
      token,
      ordered: ordered === undefined ? undefined : Number(ordered),
      signingKey: signingKey === null ? 'none' : signingKey,
      signingOverlapMs: SIGNING_OVERLAP_MS,
      topics: [...new Set(topics)],
      laneLimitMax,
      maxTopics,
      maxSubscribers,
    });
  }

  /** Ends one subscription. Queued events are still delivered. */
  async unsubscribe(token: string, topic: string): Promise<UnsubscribeOutcome> {
    return this.#store.run('unsubscribe', { token, topic });
  }

  /**
   * Removes the subscriber, its queue and its dead letters. Returns how many events the queue held; undefined
   * if there was no such subscriber. A batch that is being delivered at that moment still arrives.
   * Idempotent: a repeated call completes a removal that was cut off.
   */
  async remove(token: string): Promise<number | undefined> {
    const { found, nowMs: untilMs } = await this.#store.run('remove_subscriber', { token });
    // Even if the subscriber is gone, an earlier removal may have been cut off before this step.
    await this.#deadLetters.purgeAll(token, untilMs);
    if (!found) return undefined;
    let dropped = 0;
    for (;;) {
      const slice = { token, maxBatches: DROP_SLICE, untilMs };
      const { batches, events } = await this.#store.run('drop_queue', slice);
      dropped += events;
      if (batches < DROP_SLICE) return dropped;
    }
  }

  async has(token: string): Promise<boolean> {
    return (await this.#store.command((redis, keys) => redis.sismember(keys.subscribers(), token))) === 1;
  }

  /** Reports one subscriber, or all, by token. */
  async list(token?: string): Promise<SubscriberReport[]> {
    return this.#store.command(async (redis, keys) => {
      const tokens = token === undefined ? (await redis.smembers(keys.subscribers())).sort() : [token];
      const reports = await Promise.all(tokens.map((each) => readReport(redis, keys, each, this.#defaults)));
      return reports.filter((each) => each !== undefined);
    });
  }
}
