import { LRUCache } from 'lru-cache';
import { within } from '../clock.ts';
import { isPassing, StorageLost, StorageUnavailable } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import { failureOf, type Log } from '../log.ts';
import { Batcher } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { TopicMarks } from '../subscribing/topic_marks.ts';
import { bytesOf, headOf, MAX_BYTES } from './outbox_list.ts';
import { countPublished, type PublishRecorder } from './publication.ts';

/**
 * Maximum time that an outbox job waits until a partition has applied entries, which normally takes milliseconds.
 * Without this limit, one partition that hangs delays the entries for all other partitions. While three of eight
 * Redises hung, events between two healthy ones took 10.7 s (p99).
 */
const PATIENCE_MS = 500;
/** Minimum time between two log lines about what the same topic refuses, or the same partition cannot store. */
const TELL_EVERY_MS = 10_000;
const MAX_TOLD = 1000;
const JOIN_REFUSED = 'a join may not publish to its topic any more; its events are dropped';
const HALF_WAY = 'entries of an outbox failed; what was stored half-way counts as applied';

export interface ApplyingParts {
  /**
   * All partitions, for the script calls that apply entries. With ROUTEMASTER_MIN_REPLICAS, such a call resolves only
   * when that many replicas have its writes.
   */
  confirmed: Partitions;
  recorder: PublishRecorder;
  marks: Pick<TopicMarks, 'refresh'>;
  limits: { maxTopics: number; maxClientTopics: number };
  log: Log;
}

/** Entries from the outbox of one partition (`source`) that another partition must apply, in order. */
interface Work {
  source: string;
  entries: readonly Buffer[];
}

interface Applied {
  /** The number of the newest outbox entry that the partition has applied. */
  last: number;
  /**
   * Resolves when outdated marks have been removed. A mark is a note in the home of a topic that another partition has
   * subscribers of the topic. It is outdated when the last of these subscribers has left. A promise of its own, because
   * a home that hangs would otherwise delay the outboxes of healthy partitions.
   */
  marksRemoved: Promise<void>;
}

/**
 * Sends outbox entries to the partitions that must apply them. An entry says what to do there, for example store events
 * for subscribers. Entries from several outboxes share a script call.
 */
export class Applying {
  readonly #parts: ApplyingParts;
  readonly #batchers: readonly Batcher<Work, Applied>[];
  /** Indexes of the partitions that have not answered a call within PATIENCE_MS, and still have not answered. */
  readonly #hanging = new Set<number>();
  /** Topics, and indexes of partitions, about which a line was logged within TELL_EVERY_MS. */
  readonly #told = new LRUCache<string | number, true>({ max: MAX_TOLD, ttl: TELL_EVERY_MS });

  constructor(parts: ApplyingParts) {
    this.#parts = parts;
    this.#batchers = parts.confirmed.all.map(
      (_, index) =>
        new Batcher((group) => this.#applyGroup(index, group), {
          max: MAX_BYTES,
          weigh: ({ entries }) => bytesOf(entries),
        }),
    );
  }

  /**
   * Makes the partition with the index `to` apply entries from the outbox of `home`, and resolves when it has applied
   * all of them. Throws StorageUnavailable or StorageFull.
   *
   * - `alone`: the script call gets no entries of other outboxes, because if one of those failed, the whole call would
   *   fail.
   * - `inTime`: waits at most PATIENCE_MS for the answer of the partition, then throws StorageUnavailable. Until that
   *   answer comes, all further calls with `inTime` throw without waiting.
   */
  async apply(
    home: Partition,
    to: number,
    entries: readonly Buffer[],
    { alone = false, inTime = false }: { alone?: boolean; inTime?: boolean } = {},
  ): Promise<void> {
    if (inTime && this.#hanging.has(to)) throw this.#awayError(to);
    for (let left = entries; left.length > 0; ) {
      const applying = this.#send(to, { source: String(home.index), entries: left }, alone);
      const { last, marksRemoved } = inTime ? await this.#inTime(to, applying) : await applying;
      // A caller without `inTime` may be deleting a topic, which is gone only when its marks are removed.
      if (!inTime) await marksRemoved;
      left = left.filter((entry) => headOf(entry).number > last);
    }
  }

  async #send(to: number, work: Work, alone: boolean): Promise<Applied> {
    const batcher = this.#batchers[to];
    if (!batcher) throw new Error(`there is no partition ${to}`);
    if (!alone) return batcher.add(work);
    const [applied] = await this.#applyGroup(to, [work]);
    return applied as Applied;
  }

  async #inTime(to: number, applying: Promise<Applied>): Promise<Applied> {
    const applied = await within(PATIENCE_MS, applying);
    if (applied !== undefined) return applied;
    this.#hanging.add(to);
    const ended = () => this.#hanging.delete(to);
    applying.then(ended, ended);
    throw this.#awayError(to);
  }

  #awayError(to: number): StorageUnavailable {
    const { name, address } = (this.#parts.confirmed.all[to] as Partition).master;
    return new StorageUnavailable(undefined, `${name} is away`, address ?? name);
  }

  async #applyGroup(to: number, sources: readonly Work[]): Promise<Applied[]> {
    const { confirmed, recorder, limits } = this.#parts;
    const partition = confirmed.all[to] as Partition;
    const reply = await partition.runPermitted('apply_outbox', { ...limits, uidSeed: uidSeed(), sources });
    if (reply.isLost) throw new StorageLost(partition.master.name);
    countPublished(recorder, reply.published);
    for (const refusal of reply.refused) this.#tell(refusal.topic, refusal, JOIN_REFUSED);
    if (reply.failure !== undefined) this.#tell(to, { partition: to, reason: reply.failure }, HALF_WAY);
    const marksRemoved = this.#removeMarks(partition, reply.mayBeUnused);
    return reply.applied.map((last) => ({ last, marksRemoved }));
  }

  #tell(key: string | number, about: object, message: string): void {
    if (this.#told.has(key)) return;
    this.#told.set(key, true);
    this.#parts.log.error(about, message);
  }

  /** Checks `topics`, which seem to have no subscribers left in `partition`, and removes the marks of those without. */
  #removeMarks(partition: Partition, topics: readonly string[]): Promise<void> {
    const { marks, log } = this.#parts;
    const removed = topics.length > 0 ? marks.refresh(partition, topics) : Promise.resolve();
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
