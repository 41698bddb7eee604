import { StorageFull } from '../errors.ts';
import type { Partition } from '../store/partition.ts';
import { Applying, type ApplyingParts } from './applying.ts';
import { headOf, type OutboxHolder, OutboxList } from './outbox_list.ts';
import { ReadingPace } from './reading_pace.ts';

/**
 * How the sending of outbox entries has ended:
 * - `ended`: no entry was left, and the job that sent the entries is deleted;
 * - `left`: entries may be left, because the caller asked to stop;
 * - `lost`: no entry was left, but the worker no longer held the job, and so did not delete it.
 */
type MoveEnd = 'ended' | 'left' | 'lost';

/**
 * Empties outboxes. An outbox is a list in one partition, its home. Each entry is work for other partitions, such as
 * events for subscribers there. The entries are applied in order, so a slow partition would hold up the others. The
 * entries for a slow partition are therefore set aside: moved to a list for this partition alone.
 */
export class Outbox {
  readonly #applying: Applying;
  readonly #pace = new ReadingPace();

  constructor(parts: ApplyingParts) {
    this.#applying = new Applying(parts);
  }

  /**
   * Makes the other partitions apply the entries in the outbox of `home`, until none is left. `holder` is the worker
   * that runs the job of the outbox. The script call that finds the outbox empty also deletes the job.
   */
  async empty(home: Partition, holder: OutboxHolder, signal: AbortSignal): Promise<MoveEnd> {
    const list = new OutboxList(home, { holder });
    while (!signal.aborted) {
      const { entries, behind, ended } = await list.read();
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      const failed = await this.#applyInAll(home, entries, behind);
      list.done(entries, [...behind, ...failed.keys()]);
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
  ): Promise<MoveEnd> {
    const list = new OutboxList(home, { aside: to, holder });
    for (;;) {
      const { entries, ended } = await list.read();
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      // Check the signal after the read, not before, because the read also removes the entries that `to` has just
      // applied. If Redis is full, trying smaller and smaller parts of the entries can take a whole run of the job. If
      // the run ended before the read, the next run would try the same entries again.
      if (signal?.aborted) return 'left';
      list.done(await this.#applyAside(home, to, entries, { inTime: holder !== undefined }));
    }
  }

  /**
   * Makes the partition `to` apply all entries that `home` has for it now. Resolves when `to` has applied them, however
   * long that takes. Throws StorageUnavailable or StorageFull.
   */
  async flush(home: Partition, to: Partition): Promise<void> {
    const sent = await home.command((redis, keys) => redis.hget(keys.outboxes_sent(), 'last'));
    const last = Number(sent ?? 0);
    const list = new OutboxList(home);
    let applied = -1;
    while (applied < last) {
      await this.emptyAside(home, to.index);
      const { entries, behind } = await list.read();
      // `behind` has the partitions that must first apply the entries set aside for them. `to` has just applied its
      // own. If it is in `behind` nevertheless, another process has set more entries aside meanwhile. Then begin again.
      if (behind.includes(to.index)) continue;
      if (entries.length === 0) return;
      const failed = await this.#applyInAll(home, entries, behind, to.index);
      if (failed.has(to.index)) throw failed.get(to.index);
      list.done(entries, [...behind, ...failed.keys()]);
      applied = headOf(entries.at(-1) as Buffer).number;
    }
  }

  /**
   * Sends each partition its entries, and waits until all of these partitions have applied them. For each partition,
   * waits at most PATIENCE_MS; only for the partition `awaited`, waits without limit. Skips the partitions in `behind`,
   * which must first apply the entries that are set aside for them. Resolves with the error of each partition that has
   * failed.
   */
  async #applyInAll(
    home: Partition,
    entries: readonly Buffer[],
    behind: readonly number[],
    awaited?: number,
  ): Promise<Map<number, unknown>> {
    const failed = new Map<number, unknown>();
    const work = entries.flatMap((entry) => headOf(entry).partitions.map((to) => ({ to, entry })));
    const applying = [...Map.groupBy(work, ({ to }) => to)]
      .filter(([to]) => !behind.includes(to))
      .map(([to, its]) => {
        const own = its.map(({ entry }) => entry);
        return this.#applying
          .apply(home, to, own, { inTime: to !== awaited })
          .catch((error) => failed.set(to, error));
      });
    await Promise.all(applying);
    return failed;
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
      await this.#applying.apply(home, to, entries, { ...wait, alone: true });
      return entries;
    } catch (error) {
      if (!(error instanceof StorageFull) || entries.length === 1) throw error;
      return this.#applyAside(home, to, entries.slice(0, Math.floor(entries.length / 2)), wait);
    }
  }
}
