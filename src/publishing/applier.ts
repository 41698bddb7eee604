import { LRUCache } from 'lru-cache';
import { within } from '../clock.ts';
import { isPassing, StorageLost, StorageUnavailable } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import { failureOf, type Log } from '../log.ts';
import { Batcher } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';
import type { TopicMarks } from '../subscribing/topic_marks.ts';
import { bytesOf, headOf, MAX_BYTES } from './outbox_list.ts';
import { countPublished, type PublishRecorder } from './publication.ts';

/**
 * Maximum time that an outbox job waits until a partition has applied entries, which normally takes milliseconds.
 * Without this limit, one partition that hangs delays the entries for all other partitions. While three of eight
 * Redises hung, events between two healthy ones took 10.7 s (p99).
 */
const PATIENCE_MS = 500;
/** Minimum time between two log lines about the same topic, or between two lines with the message HALF_WAY. */
const TELL_EVERY_MS = 10_000;
const MAX_TOLD = 1000;
const JOIN_REFUSED = 'a join may not publish to its topic any more; its events are dropped';
const HALF_WAY = 'entries of an outbox failed; what was stored half-way counts as applied';

export interface ApplierParts {
  recorder: PublishRecorder;
  marks: Pick<TopicMarks, 'refresh'>;
  limits: { maxTopics: number; maxClientTopics: number };
  log: Log;
}

/** Entries from the outbox of one partition (`source`), in order. */
interface Work {
  source: string;
  entries: readonly Buffer[];
}

/** The answer to a script call. */
interface Applied {
  /** The number of the newest entry that the partition has applied. */
  last: number;
  /**
   * Some topics may have no subscribers in the partition any more. Resolves when the marks that said they have some are
   * removed from the partitions that store these topics. One of those partitions may hang, so the outbox jobs of other
   * partitions do not wait for this promise.
   */
  marksRemoved: Promise<void>;
}

/**
 * Makes one partition apply outbox entries of the others. An entry says what to do there, for example store events for
 * subscribers. `apply` sends entries until all are applied; entries from several outboxes share a script call.
 */
export class Applier {
  readonly #partition: Partition;
  readonly #parts: ApplierParts;
  readonly #batcher: Batcher<Work, Applied>;
  /** True while the partition has not answered a call within PATIENCE_MS, and still has not answered. */
  #isHanging = false;
  /** The subjects of the lines that were logged within TELL_EVERY_MS: topics, and HALF_WAY. */
  readonly #told = new LRUCache<string, true>({ max: MAX_TOLD, ttl: TELL_EVERY_MS });

  /**
   * With ROUTEMASTER_MIN_REPLICAS, a script call of `partition` must resolve only when that many replicas have what the
   * script wrote, because the outbox then removes the entries.
   */
  constructor(partition: Partition, parts: ApplierParts) {
    this.#partition = partition;
    this.#parts = parts;
    const weigh = ({ entries }: Work) => bytesOf(entries);
    this.#batcher = new Batcher((works) => this.#call(works), { max: MAX_BYTES, weigh });
  }

  /**
   * Makes the partition apply entries from the outbox of `home`, and resolves when it has applied all of them. Throws
   * StorageUnavailable or StorageFull.
   *
   * - `alone`: the script call gets no entries of other outboxes, because if one of those failed, the whole call would
   *   fail.
   * - `inTime`: waits at most PATIENCE_MS for each answer of the partition, then throws StorageUnavailable. Until that
   *   answer comes, all further calls with `inTime` throw without waiting. Without `inTime`, there is no such limit.
   *   The call then also waits for `marksRemoved`, because the caller may be deleting a topic: while the topic has
   *   marks, it still exists.
   */
  async apply(
    home: Partition,
    entries: readonly Buffer[],
    { alone = false, inTime = false }: { alone?: boolean; inTime?: boolean } = {},
  ): Promise<void> {
    if (inTime && this.#isHanging) throw this.#awayError();
    let left = entries;
    while (left.length > 0) {
      const answer = this.#send({ source: String(home.index), entries: left }, alone);
      if (inTime) await this.#haveInTime(answer);
      else await (await answer).marksRemoved;
      const { last } = await answer;
      left = left.filter((entry) => headOf(entry).number > last);
    }
  }

  async #send(work: Work, alone: boolean): Promise<Applied> {
    if (!alone) return this.#batcher.add(work);
    const [applied] = await this.#call([work]);
    return applied as Applied;
  }

  async #haveInTime(answer: Promise<Applied>): Promise<void> {
    if (await within(PATIENCE_MS, answer)) return;
    this.#isHanging = true;
    const answered = () => {
      this.#isHanging = false;
    };
    answer.then(answered, answered);
    throw this.#awayError();
  }

  #awayError(): StorageUnavailable {
    const { name, address } = this.#partition.master;
    return new StorageUnavailable(undefined, `${name} is away`, address ?? name);
  }

  /** Makes one script call. Resolves with an answer to each of the works, in their order. */
  async #call(works: readonly Work[]): Promise<Applied[]> {
    const { recorder, limits } = this.#parts;
    const args = { ...limits, uidSeed: uidSeed(), sources: works };
    const reply = await this.#partition.runPermitted('apply_outbox', args);
    const { index, master } = this.#partition;
    if (reply.isLost) throw new StorageLost(master.name);
    countPublished(recorder, reply.published);
    for (const refusal of reply.refused) this.#tell(refusal.topic, refusal, JOIN_REFUSED);
    if (reply.failure !== undefined)
      this.#tell(HALF_WAY, { partition: index, reason: reply.failure }, HALF_WAY);
    const marksRemoved = this.#removeMarks(reply.mayBeUnused);
    return reply.applied.map((last) => ({ last, marksRemoved }));
  }

  /** Logs an error, unless an error about the same `subject` was logged within TELL_EVERY_MS. */
  #tell(subject: string, about: object, message: string): void {
    if (this.#told.has(subject)) return;
    this.#told.set(subject, true);
    this.#parts.log.error(about, message);
  }

  /** Counts the subscribers that `topics` have in the partition. Removes the marks of topics that have none there. */
  #removeMarks(topics: readonly string[]): Promise<void> {
    const { marks, log } = this.#parts;
    const removed = topics.length > 0 ? marks.refresh(this.#partition, topics) : Promise.resolve();
    removed.catch((error) => {
      // If Redis was away or full, nothing is logged, because the bus tries again to remove the mark when the topic has
      // new events.
      if (isPassing(error)) return;
      const about = { err: error, ...failureOf(error) };
      log.error(about, 'the mark of a topic without subscribers cannot be removed');
    });
    return removed;
  }
}
