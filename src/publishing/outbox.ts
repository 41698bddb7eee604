import { clock, sleep } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import type { Arguments } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { Applying, type ApplyingParts, bytesOf, headOf, MAX_APPLIED_BYTES } from './applying.ts';

type ReadArguments = Arguments<'read_outbox'>;

/** Maximum outbox entries that are read at a time. Their bytes are limited too, to about MAX_APPLIED_BYTES. */
const MAX_ENTRIES = 500;
/**
 * A busy outbox is read only when the clock shows a multiple of this time, so that each read finds many entries. All
 * busy outboxes of a process are then read at the same moments, and their entries can share a script call.
 */
const READ_EVERY_MS = 20;
/**
 * An outbox is busy if about this many entries or more were lately read from it. Older entries count less: an entry
 * counts as 1 when it is read, as 0.37 after RECENT_MS, and as 0.14 after twice RECENT_MS.
 */
const BUSY = 5;
const RECENT_MS = 100;

/**
 * The worker that runs the job of an outbox. `lease` is the number of the worker's lease for this job. The lease
 * expires after `leaseMs` without a sign of life from the worker.
 */
interface OutboxHolder {
  worker: string;
  lease: number;
  leaseMs: number;
}

/**
 * How the sending of outbox entries has ended:
 * - `ended`: no entry was left, and the job that sent them is deleted;
 * - `left`: entries may be left, because the caller asked to stop;
 * - `lost`: the worker no longer holds the job.
 */
export type MoveEnd = 'ended' | 'left' | 'lost';

/**
 * The result of the last read of an outbox: `count` entries with `bytes` bytes in all, up to the entry with the number
 * `last`. All partitions except those in `late` have applied their entries. The next read removes the entries from the
 * outbox, and sets those for the partitions in `late` aside.
 */
interface LastRead {
  last: number;
  count: number;
  bytes: number;
  /**
   * The partitions that did not apply their entries in time. These entries are set aside, so that no other partition
   * has to wait.
   */
  late: string[];
}

/**
 * Empties outboxes. An outbox is a list in one partition, its home. Each entry is work for other partitions, such as
 * events for subscribers there. The entries are applied in order, so a slow partition would hold up the others. The
 * entries for a slow partition are therefore set aside: moved to a list for this partition alone.
 */
export class Outbox {
  readonly #applying: Applying;
  /**
   * The load of each outbox, by the index of its partition. About `entries` entries were read from it in the RECENT_MS
   * before `atMs`.
   */
  readonly #loads = new Map<number, { entries: number; atMs: number }>();
  /**
   * Approximate maximum bytes of one read of set-aside entries. If the Redis of a partition is too full to apply them,
   * the maximum falls to 1, so that entries are sent one by one. Each success raises the maximum again, up to
   * MAX_APPLIED_BYTES.
   */
  #maxBytes = MAX_APPLIED_BYTES;

  constructor(parts: ApplyingParts) {
    this.#applying = new Applying(parts);
  }

  /**
   * Makes the partition `to` apply the entries that `home` has for it at the time of the call. Resolves when `to` has
   * applied all of them. Throws StorageUnavailable or StorageFull.
   */
  async flush(home: Partition, to: Partition): Promise<void> {
    const sent = await home.command((redis, keys) => redis.hget(keys.outboxes_sent(), 'last'));
    const last = Number(sent ?? 0);
    for (let lastRead: LastRead | undefined; !lastRead || lastRead.last < last; ) {
      await this.emptyAside(home, to.index);
      const { entries, behind } = await this.#read(home, lastRead);
      lastRead = undefined;
      // Partitions in `behind` must first apply the entries that are set aside for them. `to` has just done this. If it
      // is in `behind` again, another process has set more entries aside, and the loop begins again.
      if (behind.includes(to.index)) continue;
      if (entries.length === 0) return;
      const failed = await this.#apply(home, entries, behind, to.index);
      if (failed.has(to.index)) throw failed.get(to.index);
      lastRead = lastReadOf(entries, [...behind, ...failed.keys()]);
    }
  }

  /**
   * Makes the other partitions apply the entries in the outbox of `home`, until none is left. `holder` is the worker
   * that runs the job of the outbox. The script call that finds the outbox empty also deletes the job.
   */
  async empty(home: Partition, holder: OutboxHolder, signal: AbortSignal): Promise<MoveEnd> {
    for (let lastRead: LastRead | undefined; !signal.aborted; ) {
      const { entries, behind, ended } = await this.#read(home, lastRead, holder);
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      const failed = await this.#apply(home, entries, behind);
      lastRead = lastReadOf(entries, [...behind, ...failed.keys()]);
      // A busy outbox is read less often, so that more entries gather. If a read got MAX_ENTRIES, more are probably
      // waiting, so the next read follows at once.
      if (this.#isBusy(home, entries.length) && entries.length < MAX_ENTRIES)
        await sleep(READ_EVERY_MS - (clock.monotonicMs() % READ_EVERY_MS), signal);
    }
    return 'left';
  }

  /**
   * Makes the partition `to` apply the entries that `home` has set aside for it. Ends when none is left, or `isOver`
   * returns true. `holder` is the worker that does this as its job; undefined if the caller runs no job. Throws
   * StorageUnavailable or StorageFull.
   */
  async emptyAside(
    home: Partition,
    to: number,
    holder?: OutboxHolder,
    isOver = () => false,
  ): Promise<MoveEnd> {
    for (let lastRead: LastRead | undefined; ; ) {
      const { entries, ended } = await this.#read(home, lastRead, {
        partition: String(to),
        maxEntries: this.#maxBytes === 1 ? 1 : MAX_ENTRIES,
        maxBytes: this.#maxBytes,
        ...holder,
      });
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      try {
        await this.#applying.apply(home, to, entries, { inTime: holder !== undefined, alone: true });
      } catch (error) {
        if (!(error instanceof StorageFull)) throw error;
        // The Redis of `to` is too full for so many entries: applying one MB takes several MB of memory. So they are
        // now sent one by one. The error is thrown only if a single entry is too much.
        this.#maxBytes = 1;
        if (entries.length === 1) throw error;
        lastRead = undefined;
        continue;
      }
      this.#maxBytes = Math.min(MAX_APPLIED_BYTES, 8 * this.#maxBytes);
      if (isOver()) return 'left';
      lastRead = lastReadOf(entries, []);
    }
  }

  #read(home: Partition, lastRead: LastRead | undefined, more: Partial<ReadArguments> = {}) {
    const limits = { maxEntries: MAX_ENTRIES, maxBytes: MAX_APPLIED_BYTES };
    return home.run('read_outbox', { late: [], ...limits, ...lastRead, ...more });
  }

  /**
   * Sends each partition its entries, and waits until the partition has applied them: at most PATIENCE_MS, but without
   * limit for the partition `awaited`. Skips the partitions in `behind`, which must first apply the entries that are
   * set aside for them. Resolves with the error of each partition that has failed.
   */
  async #apply(
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

  #isBusy({ index }: Partition, entries: number): boolean {
    const nowMs = clock.monotonicMs();
    const { entries: before, atMs } = this.#loads.get(index) ?? { entries: 0, atMs: nowMs };
    const load = before * Math.exp((atMs - nowMs) / RECENT_MS) + entries;
    this.#loads.set(index, { entries: load, atMs: nowMs });
    return load >= BUSY;
  }
}

function lastReadOf(entries: readonly Buffer[], late: readonly number[]): LastRead {
  const { number } = headOf(entries.at(-1) as Buffer);
  return { last: number, count: entries.length, bytes: bytesOf(entries), late: late.map(String) };
}
