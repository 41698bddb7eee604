import { sleep } from '../clock.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import type { Log } from '../log.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { TopicMarks } from '../subscribing/topic_marks.ts';
import { addedBySubscriber } from './publication.ts';
import type { PublishFigures } from './publisher.ts';

/** Maximum entries of one step, and its approximate maximum of bytes. An entry has the events of one script call. */
const MAX_ENTRIES = 100;
const MAX_BYTES = 1_000_000;
/**
 * Maximum time that a job waits for another partition, which normally applies entries in milliseconds. Otherwise a master
 * that hangs would hold up the jobs of other outboxes until its connection is cut: with one such master, deliveries
 * between two other masters took ten seconds.
 */
const PATIENCE_MS = 250;

interface OutboxParts {
  /** The partitions to use when entries are applied: with ROUTEMASTER_MIN_REPLICAS, these wait for replicas. */
  applying: Partitions;
  figures: PublishFigures;
  marks: Pick<TopicMarks, 'refresh'>;
  limits: { maxTopics: number; maxClientTopics: number };
  log: Log;
}

/** The worker that holds the job of an outbox. */
export interface OutboxHolder {
  worker: string;
  lease: number;
  leaseMs: number;
}

/**
 * Empties outboxes. An outbox is a list, in the partition where a topic lives, of entries for another partition: events
 * for the subscribers there, for example (lua/shared/outboxes.lua). Any number of processes may move entries at the same
 * time, since the other partition applies each entry once, in order.
 */
export class Outbox {
  readonly #parts: OutboxParts;
  /** Indexes of the partitions that exceeded PATIENCE_MS and still have not answered. */
  readonly #hanging = new Set<number>();
  /** About how many bytes are moved at a time. One entry alone after Redis had no memory for more. */
  #maxBytes = MAX_BYTES;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  /** Resolves when `to` has applied all entries that `home` has for it now. Throws as Partition does. */
  async flush(home: Partition, to: Partition): Promise<void> {
    const sent = await home.command((redis, keys) => redis.hget(keys.outboxes_sent(), String(to.index)));
    const last = Number(sent ?? 0);
    for await (const applied of this.#move(home, to)) if (applied >= last) return;
  }

  /**
   * Moves entries until the outbox is empty. The step that finds it empty also ends the job that `holder` holds. Returns
   * 'left' if `isOver` returned true before that, and 'lost' if the worker does not hold the job any more.
   */
  async empty(
    home: Partition,
    to: Partition,
    holder: OutboxHolder,
    isOver: () => boolean,
  ): Promise<'ended' | 'left' | 'lost'> {
    const moving = this.#move(home, to, holder);
    for (let step = await moving.next(); ; step = await moving.next()) {
      if (step.done) return step.value ? 'ended' : 'lost';
      if (isOver()) return 'left';
    }
  }

  /**
   * Moves entries step by step. Yields the number of the last applied entry after each step. Returns true if the job
   * ended.
   */
  async *#move(home: Partition, to: Partition, holder?: OutboxHolder): AsyncGenerator<number, boolean> {
    let applied: number | undefined;
    for (let checked = 0; ; ) {
      const { entries, ended } = await home.run('read_outbox', {
        ...{
          partition: String(to.index),
          maxEntries: this.#maxBytes === 1 ? 1 : MAX_ENTRIES,
          maxBytes: this.#maxBytes,
        },
        ...{ applied, checked, leaseMs: 0, ...holder },
      });
      if (entries.length === 0) return ended;
      const applying = () => this.#apply(home, to, entries);
      try {
        applied = await (holder ? this.#inTime(to, applying) : applying());
        this.#maxBytes = Math.min(MAX_BYTES, 8 * this.#maxBytes);
      } catch (error) {
        if (!(error instanceof StorageFull)) throw error;
        // To move a MB takes several MB for a moment, which a full Redis may lack.
        this.#maxBytes = 1;
        if (entries.length === 1) throw error;
        continue;
      }
      checked = entries.length;
      yield applied;
    }
  }

  /**
   * Applies entries, but waits for the partition no longer than PATIENCE_MS. Then it throws StorageUnavailable, and so do
   * all calls until the partition has answered.
   */
  async #inTime(to: Partition, apply: () => Promise<number>): Promise<number> {
    const hangs = () => new StorageUnavailable(new Error(`partition ${to.index} does not answer`));
    if (this.#hanging.has(to.index)) throw hangs();
    const applying = apply();
    const answered = new AbortController();
    const late = sleep(PATIENCE_MS, answered.signal);
    const applied = await Promise.race([applying, late]).finally(() => answered.abort());
    if (applied !== undefined) return applied;
    this.#hanging.add(to.index);
    const ended = () => this.#hanging.delete(to.index);
    applying.then(ended, ended);
    throw hangs();
  }

  /** Has the other partition apply entries. Returns the number of the last entry that it has applied. */
  async #apply(home: Partition, to: Partition, entries: readonly Buffer[]): Promise<number> {
    const { applying, figures, marks, limits } = this.#parts;
    const { maxTopics, maxClientTopics } = limits;
    const reply = await (applying.all[to.index] as Partition).run('apply_outbox', {
      ...{ uidSeed: uidSeed(), source: String(home.index), entries },
      ...{ maxTopics, maxClientTopics },
    });
    for (const [subscriber, events] of reply.added.flatMap(addedBySubscriber))
      figures.added(subscriber, events);
    for (const { topic, events, bytes } of reply.published) figures.published(topic, events, bytes);
    for (const refusal of reply.refused) this.#report(refusal);
    if (reply.unused.length > 0) await marks.refresh(to, reply.unused);
    return reply.applied;
  }

  #report({ topic, reason, events }: Reply<'apply_outbox'>['refused'][number]): void {
    this.#parts.log.error(
      { topic, reason, events },
      'a join may not publish to its topic any more; its events are dropped',
    );
  }
}
