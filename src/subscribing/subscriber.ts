import { slicesOf } from '../chunks.ts';
import type { Config } from '../config.ts';
import { ignoreFull } from '../errors.ts';
import { isJoinToken, ownerOf } from '../ids.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { seriesOf } from '../metrics/series.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { sumOf } from '../sum.ts';
import { readReports, type SubscriberReport } from './subscriber_report.ts';
import type { SubscriptionDefaults } from './subscription_settings.ts';
import { type Flushing, TopicMarks } from './topic_marks.ts';

/** Maximum subscribers that one script call reads. Reading 50 takes Redis 2 ms. */
const LISTED_AT_ONCE = 50;
/** Maximum batches that one script call drops; 500 take Redis a few milliseconds. */
const DROPPED_AT_ONCE = 500;

type Settings = SubscriptionDefaults & Pick<Config, 'deliveryLog'>;

/** What `Subscribers` needs to remove a subscriber. */
interface Removal {
  /** Does the work that the outbox of one partition has for another. With one partition, there is no such work. */
  outbox: Flushing;
  /** `purgeAll` deletes the dead letters of a subscriber, except batches that became dead letters after `untilMs`. */
  deadLetters: { purgeAll(token: string, untilMs: number): Promise<unknown> };
  recorder: Pick<Recorder, 'removed'>;
}

/** Reads, pauses, resumes and removes subscribers. Joins are subscribers too, but `tokens` and `list` omit them. */
export class Subscribers {
  readonly #partitions: Partitions;
  readonly #settings: Settings;
  readonly #removal: Removal;

  constructor(partitions: Partitions, settings: Settings, removal: Removal) {
    this.#partitions = partitions;
    this.#settings = settings;
    this.#removal = removal;
  }

  /** Stops deliveries to a subscriber until it is resumed. A repeat by the same caller changes nothing. */
  pause(token: string, by: Arguments<'pause'>['by']): Promise<Reply<'pause'>> {
    return this.#partitions.ofSubscriber(token).run('pause', { token, by });
  }

  /** Resumes deliveries to a subscriber. Returns `ok` even if the subscriber was not paused. */
  resume(token: string, by: Arguments<'resume'>['by']): Promise<Reply<'resume'>> {
    const { laneLimitMax } = this.#settings;
    return this.#partitions.ofSubscriber(token).run('resume', { token, by, laneLimitMax });
  }

  /**
   * Removes a subscriber with its queue and its dead letters. Resolves with false if there is no such subscriber.
   * Deliveries under way still arrive. If a removal is interrupted, workers delete the remaining batches, and a second
   * call purges the remaining dead letters.
   */
  async remove(token: string): Promise<boolean> {
    const { outbox, deadLetters, recorder } = this.#removal;
    const marks = new TopicMarks(this.#partitions);
    const partition = this.#partitions.ofSubscriber(token);
    // If memory is short, entries for this subscriber may stay in the outbox, because the queue to which they belong is
    // about to be dropped. An error would stop the removal, although the removal frees memory.
    const flush: Flushing['flush'] = (home, to) => outbox.flush(home, to).catch(ignoreFull);
    const topics = await marks.flushLeft({ flush }, token, () => true);
    const into = await partition.command((redis, keys) => redis.hget(keys.subscriber(token), 'into'));
    const homes = new Set(into?.match(/\S+/g)?.map((topic) => this.#partitions.ofTopic(topic)));
    const flushTo = async (homes: Iterable<Partition>) => {
      for (const home of homes) if (home !== partition) await outbox.flush(partition, home);
    };
    // The outbox may still have a join's events for topics of other partitions. They are sent there before the join is
    // removed, because later they could create a deleted topic again. If one of these partitions is away, `flushTo`
    // throws. The join still exists then, so the call can be repeated. Subscribers other than joins have no field
    // `into`.
    await flushTo(homes);
    const { found, nowMs: untilMs } = await partition.run('remove_subscriber', {
      token,
      series: seriesOf({ subscriber: token }),
    });
    // An earlier call may have removed the subscriber, but only some of its dead letters. So they are purged even if
    // the subscriber is gone. The purge comes before the calls to other partitions, which throw if a partition is away.
    // A caller that removes all joins of a client could not repeat the purge for a join: a removed join is in no list.
    await deadLetters.purgeAll(token, untilMs);
    await marks.refreshLeft(partition, topics);
    // Sends the events that a join has put into the outbox just before its removal. If an earlier call has removed the
    // subscriber (`found` is false), the topics of the join are unknown. Then the events for all partitions are sent.
    await flushTo(found ? homes : this.#partitions.all);
    if (!found) return false;
    let dropped = 0;
    for (;;) {
      const { deliveryLog } = this.#settings;
      const slice = { token, maxBatches: DROPPED_AT_ONCE, untilMs, deliveryLog };
      const { batches, events } = await partition.run('drop_queue', slice);
      dropped += events;
      if (batches < DROPPED_AT_ONCE) break;
    }
    recorder.removed(token, dropped);
    return true;
  }

  async has(token: string): Promise<boolean> {
    const partition = this.#partitions.ofSubscriber(token);
    return (await partition.command((redis, keys) => redis.sismember(keys.subscribers(), token))) === 1;
  }

  /** Returns the reports of all subscribers, sorted by token. */
  async list(): Promise<SubscriberReport[]> {
    return this.read(await this.tokens());
  }

  /** Returns the tokens of all subscribers, in any order, without joins. */
  async tokens(): Promise<string[]> {
    return (await this.#all()).filter((token) => !isJoinToken(token));
  }

  /** Returns the number of subscribers and joins. */
  async members(): Promise<number> {
    return sumOf(await this.#partitions.ask((redis, keys) => redis.scard(keys.subscribers())));
  }

  /** Returns the tokens of all clients that are subscribers or have joins. */
  async owners(): Promise<string[]> {
    return [...new Set((await this.#all()).map(ownerOf))];
  }

  async #all(): Promise<string[]> {
    return (await this.#partitions.ask((redis, keys) => redis.smembers(keys.subscribers()))).flat();
  }

  /** Returns the reports of these subscribers, sorted by token. Subscribers that do not exist are left out. */
  async read(tokens: readonly string[]): Promise<SubscriberReport[]> {
    const parts = [...Map.groupBy(tokens, (token) => this.#partitions.ofSubscriber(token))];
    const reports = parts.map(async ([partition, tokens]) => {
      const reports: SubscriberReport[] = [];
      for (const slice of slicesOf(tokens, LISTED_AT_ONCE))
        reports.push(...(await readReports(partition, slice, this.#settings)));
      return reports;
    });
    return (await Promise.all(reports))
      .flat()
      .sort((one, other) => (one.subscriber < other.subscriber ? -1 : 1));
  }
}
