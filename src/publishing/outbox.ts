import { clock, sleep } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import type { Partition } from '../store/partition.ts';
import { Applying, type ApplyingParts, bytesOf } from './applying.ts';

/** Maximum entries of one step, and its approximate maximum of bytes. */
const MAX_ENTRIES = 500;
const MAX_BYTES = 1_000_000;
/**
 * Time between two steps of a busy outbox, so that a step has many entries. All outboxes of a process take their steps at
 * the same time, so that what several have for one partition goes in one call.
 */
const PAUSE_MS = 20;
/** An outbox is busy if it had about this many entries in the last RECENT_MS. */
const BUSY = 5;
const RECENT_MS = 100;

/** The worker that holds the job of an outbox, with its lease. */
export interface OutboxHolder {
  worker: string;
  lease: number;
  leaseMs: number;
}

/** `left`: entries may be left, because `signal` was aborted or time was up. `lost`: the worker does not hold the job. */
export type MoveEnd = 'ended' | 'left' | 'lost';

/** The first entries of an outbox, when they are applied. */
interface Step {
  last: number;
  count: number;
  bytes: number;
  /** The partitions that did not apply theirs, for which they must be set aside. */
  late: string[];
}

/**
 * Empties outboxes. An outbox is a list, in the partition where a topic lives, of entries for other partitions: events
 * for the subscribers there, for example (lua/shared/outboxes.lua). What a partition does not apply in time is set aside
 * for it in a list of its own. Any number of processes may move entries at the same time, since the other partition
 * applies each entry once, in order.
 */
export class Outbox {
  readonly #applying: Applying;
  /** For each home, about how many entries it had in the last RECENT_MS, and when that was reckoned. */
  readonly #recent = new Map<number, { entries: number; atMs: number }>();
  /** About how many bytes are moved at a time from a list set aside. One entry alone after Redis had no memory for more. */
  #maxBytes = MAX_BYTES;

  constructor(parts: ApplyingParts) {
    this.#applying = new Applying(parts);
  }

  /** Resolves when `to` has applied all entries that `home` has for it now. Throws as Partition does. */
  async flush(home: Partition, to: Partition): Promise<void> {
    const sent = await home.command((redis, keys) => redis.hget(keys.outboxes_sent(), 'last'));
    const last = Number(sent ?? 0);
    for (let step: Step | undefined; !step || step.last < last; ) {
      for await (const _ of this.#moveAside(home, to.index));
      const { entries, behind } = await this.#read(home, step);
      step = undefined;
      // Entries were set aside for `to` meanwhile.
      if (behind.includes(to.index)) continue;
      if (entries.length === 0) return;
      const failed = await this.#apply(home, entries, behind);
      if (failed.has(to.index)) throw failed.get(to.index);
      step = stepOf(entries, [...behind, ...failed.keys()]);
    }
  }

  /** Moves the entries of `home` until none is left. The step that finds none also ends the job that `holder` holds. */
  async empty(home: Partition, holder: OutboxHolder, signal: AbortSignal): Promise<MoveEnd> {
    for (let step: Step | undefined; !signal.aborted; ) {
      const { entries, behind, ended } = await this.#read(home, step, holder);
      if (entries.length === 0) return ended ? 'ended' : 'lost';
      const failed = await this.#apply(home, entries, behind);
      step = stepOf(entries, [...behind, ...failed.keys()]);
      if (this.#isBusy(home, entries.length))
        await sleep(PAUSE_MS - (clock.monotonicMs() % PAUSE_MS), signal);
    }
    return 'left';
  }

  /** Does what `empty` does with what `home` has set aside for another partition. Throws as Partition does. */
  async emptyAside(
    home: Partition,
    to: number,
    holder: OutboxHolder,
    isOver: () => boolean,
  ): Promise<MoveEnd> {
    const moving = this.#moveAside(home, to, holder);
    for (let step = await moving.next(); ; step = await moving.next()) {
      if (step.done) return step.value ? 'ended' : 'lost';
      if (isOver()) return 'left';
    }
  }

  async #read(home: Partition, { late = [], ...step }: Partial<Step> = {}, holder?: OutboxHolder) {
    return home.run('read_outbox', {
      ...{ last: undefined, count: 0, bytes: 0, ...step, late },
      ...{ maxEntries: MAX_ENTRIES, maxBytes: MAX_BYTES, leaseMs: 0, ...holder },
    });
  }

  /**
   * Has all partitions apply their entries, except those that are `behind`, for which earlier ones are set aside. Resolves
   * with the error of each partition that failed.
   */
  async #apply(
    home: Partition,
    entries: readonly Buffer[],
    behind: readonly number[],
  ): Promise<Map<number, unknown>> {
    const failed = new Map<number, unknown>();
    const apply = async ([to, its]: [number, Buffer[]]) => {
      await this.#applying.applyInTime(home, to, its).catch((error) => failed.set(to, error));
    };
    await Promise.all([...byPartition(entries)].filter(([to]) => !behind.includes(to)).map(apply));
    return failed;
  }

  #isBusy({ index }: Partition, entries: number): boolean {
    const nowMs = clock.monotonicMs();
    const { entries: before, atMs } = this.#recent.get(index) ?? { entries: 0, atMs: nowMs };
    const recent = before * Math.exp((atMs - nowMs) / RECENT_MS) + entries;
    this.#recent.set(index, { entries: recent, atMs: nowMs });
    return recent >= BUSY;
  }

  /**
   * Moves entries that are set aside, step by step. Yields after each step. Returns true if the job of the list ended.
   */
  async *#moveAside(home: Partition, to: number, holder?: OutboxHolder): AsyncGenerator<void, boolean> {
    let applied: number | undefined;
    for (let checked = 0; ; ) {
      const { entries, ended } = await home.run('read_aside', {
        ...{ partition: String(to), applied, checked },
        ...{ maxEntries: this.#maxBytes === 1 ? 1 : MAX_ENTRIES, maxBytes: this.#maxBytes },
        ...{ leaseMs: 0, ...holder },
      });
      if (entries.length === 0) return ended;
      try {
        const how = holder ? 'applyInTime' : 'apply';
        applied = await this.#applying[how](home, to, entries);
        this.#maxBytes = Math.min(MAX_BYTES, 8 * this.#maxBytes);
      } catch (error) {
        if (!(error instanceof StorageFull)) throw error;
        // For a moment, moving a MB takes several MB of memory, which a full Redis may not have.
        this.#maxBytes = 1;
        if (entries.length === 1) throw error;
        continue;
      }
      checked = entries.length;
      yield;
    }
  }
}

/** The beginning of an entry: its number, and the numbers of the partitions that it is for. */
const HEAD = /^(\d{16})([\d,]+):/;
/** Maximum length of a head: all of 1,024 partitions. */
const HEAD_BYTES = 5200;

function headOf(entry: Buffer): { number: number; partitions: number[] } {
  const [, number, partitions] = HEAD.exec(entry.toString('latin1', 0, HEAD_BYTES)) ?? [];
  if (!number || !partitions) throw new Error('an entry of an outbox has no head');
  return { number: Number(number), partitions: partitions.split(',').map(Number) };
}

function byPartition(entries: readonly Buffer[]): Map<number, Buffer[]> {
  const found = new Map<number, Buffer[]>();
  for (const entry of entries)
    for (const to of headOf(entry).partitions) {
      const its = found.get(to);
      if (its) its.push(entry);
      else found.set(to, [entry]);
    }
  return found;
}

function stepOf(entries: readonly Buffer[], late: readonly number[]): Step {
  const { number } = headOf(entries.at(-1) as Buffer);
  return { last: number, count: entries.length, bytes: bytesOf(entries), late: late.map(String) };
}
