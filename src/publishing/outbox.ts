import { StorageFull } from '../errors.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { Applier, type ApplierParts } from './applier.ts';
import { type Handled, headOf, lastNumber, type OutboxHolder, readNext } from './outbox_list.ts';
import { ReadingPace } from './reading_pace.ts';

/**
 * How a call that empties a list of outbox entries has ended:
 * - `ended`: no entry was left, and the worker's job is deleted;
 * - `left`: entries may be left, because the caller asked to stop;
 * - `lost`: no entry was left, but the job is not deleted, because the worker no longer held it.
 */
type Emptied = 'ended' | 'left' | 'lost';

export interface OutboxParts extends ApplierParts {
  /** All partitions. With ROUTEMASTER_MIN_REPLICAS, their calls resolve when that many replicas have the writes. */
  confirmed: Partitions;
}

/**
 * Empties outboxes. An outbox is a list in one partition, its home. Each entry is work for other partitions, such as
 * events for subscribers there. The entries are applied in order, so a slow partition would hold up the others. The
 * entries for a slow partition are therefore set aside: moved to a list for this partition alone.
 */
export class Outbox {
  /** One for each partition. */
  readonly #appliers: readonly Applier[];
  readonly #pace = new ReadingPace();

  constructor({ confirmed, ...parts }: OutboxParts) {
    this.#appliers = confirmed.all.map((partition) => new Applier(partition, parts));
  }

  /**
   * Makes the other partitions apply the entries in the outbox of `home`, until none is left. `holder` is the worker
   * that runs the job of the outbox. The script call that finds the outbox empty also deletes the job.
   */
  async empty(home: Partition, holder: OutboxHolder, signal: AbortSignal): Promise<Emptied> {
    let handled: Handled | undefined;
    while (!signal.aborted) {
      const { entries, behind, ended } = await readNext({ home, holder }, handled);
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      handled = await this.#applyInAll(home, entries, behind);
      await this.#pace.pause(home.index, entries.length, signal);
    }
    return 'left';
  }

  /**
   * Makes the partition `to` apply the entries that `home` has set aside for it, until none is left. `holder` is the
   * worker that does this as its job, and waits only a limited time for each answer of `to`. Without `holder`, there is
   * no time limit. Throws StorageUnavailable or StorageFull.
   */
  async emptyAside(
    home: Partition,
    to: number,
    holder?: OutboxHolder,
    signal?: AbortSignal,
  ): Promise<Emptied> {
    let handled: Handled | undefined;
    for (;;) {
      const { entries, ended } = await readNext({ home, aside: to, holder }, handled);
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      // Check the signal after the read, not before, because the read also removes the entries that `to` has just
      // applied. If Redis is full, trying smaller and smaller parts of the entries can take a whole run of the job. If
      // the run ended before the read, the next run would try the same entries again.
      if (signal?.aborted) return 'left';
      handled = { entries: await this.#applyAside(home, to, entries, { inTime: holder !== undefined }) };
    }
  }

  /**
   * Makes the partition `to` apply all entries that `home` has for it now. Resolves when `to` has applied them, however
   * long that takes. The last ones stay in the outbox, until its job removes them. Throws StorageUnavailable or
   * StorageFull.
   */
  async flush(home: Partition, to: Partition): Promise<void> {
    const last = await home.command((redis, keys) => redis.hget(keys.outboxes_sent(), 'last'));
    let handled: Handled | undefined;
    for (;;) {
      await this.emptyAside(home, to.index);
      const { entries, behind } = await readNext({ home }, handled);
      // `to` has just applied what was set aside for it. If it is behind nevertheless, another process has set more
      // entries aside meanwhile. Then begin again.
      if (behind.includes(to.index)) continue;
      if (entries.length === 0) return;
      handled = await this.#applyInAll(home, entries, behind, to.index);
      if (lastNumber(entries) >= Number(last)) return;
    }
  }

  /**
   * Sends each partition its entries, and waits until all partitions have applied them or failed. A partition that
   * takes longer than PATIENCE_MS has failed. Only the partition `awaited` may take as long as it needs, and only its
   * error is thrown. Partitions in `behind` are sent nothing, because they must first apply the entries that are set
   * aside for them. In the result, `late` has the partitions that have failed, and the partitions in `behind`.
   */
  async #applyInAll(
    home: Partition,
    entries: readonly Buffer[],
    behind: readonly number[],
    awaited?: number,
  ): Promise<Handled> {
    const late = [...behind];
    const work = entries.flatMap((entry) => headOf(entry).partitions.map((to) => ({ to, entry })));
    const applying = [...Map.groupBy(work, ({ to }) => to)].map(async ([to, its]) => {
      if (behind.includes(to)) return;
      const own = its.map(({ entry }) => entry);
      try {
        await this.#applierOf(to).apply(home, own, { inTime: to !== awaited });
      } catch (error) {
        if (to === awaited) throw error;
        late.push(to);
      }
    });
    await Promise.all(applying);
    return { entries, late };
  }

  /**
   * Makes the partition `to` apply `entries`, which are set aside for it, and resolves with the entries that it has
   * applied. Applying one MB takes several MB of memory. So if the Redis of `to` is too full for all entries, tries
   * only the first half, then the first quarter, and so on. Throws StorageFull if Redis is too full for a single entry.
   */
  async #applyAside(
    home: Partition,
    to: number,
    entries: readonly Buffer[],
    wait: { inTime: boolean },
  ): Promise<readonly Buffer[]> {
    try {
      await this.#applierOf(to).apply(home, entries, { ...wait, alone: true });
      return entries;
    } catch (error) {
      if (!(error instanceof StorageFull) || entries.length === 1) throw error;
      return this.#applyAside(home, to, entries.slice(0, Math.floor(entries.length / 2)), wait);
    }
  }

  #applierOf(to: number): Applier {
    const applier = this.#appliers[to];
    if (!applier) throw new Error(`there is no partition ${to}`);
    return applier;
  }
}
