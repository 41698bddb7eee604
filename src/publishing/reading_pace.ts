import { clock, sleep } from '../clock.ts';
import { MAX_ENTRIES } from './outbox_list.ts';

/**
 * A busy outbox is read only when the clock shows a multiple of this time, so that each read finds many entries. All
 * busy outboxes of a process are then read at the same moments, and their entries can share a script call.
 */
const READ_EVERY_MS = 20;
/**
 * An outbox is busy if its recently read entries count BUSY or more. An entry counts as 1 when it is read, as 0.37
 * after RECENT_MS, and as 0.14 after twice RECENT_MS.
 */
const BUSY = 5;
const RECENT_MS = 100;

/** Decides how soon each outbox is read again. A busy one is read less often, so that more entries gather. */
export class ReadingPace {
  /**
   * The load of each outbox, by the index of its partition: about `entries` entries were read in the RECENT_MS before
   * `atMs`.
   */
  readonly #loads = new Map<number, { entries: number; atMs: number }>();

  /** Waits until the outbox of the partition `index` may be read again. The last read has found `entries` entries. */
  async pause(index: number, entries: number, signal: AbortSignal): Promise<void> {
    const isBusy = this.#loadWith(index, entries) >= BUSY;
    // Do not pause if the read found MAX_ENTRIES: more entries are probably waiting already.
    if (!isBusy || entries >= MAX_ENTRIES) return;
    await sleep(READ_EVERY_MS - (clock.monotonicMs() % READ_EVERY_MS), signal);
  }

  #loadWith(index: number, entries: number): number {
    const nowMs = clock.monotonicMs();
    const { entries: before, atMs } = this.#loads.get(index) ?? { entries: 0, atMs: nowMs };
    const load = before * Math.exp((atMs - nowMs) / RECENT_MS) + entries;
    this.#loads.set(index, { entries: load, atMs: nowMs });
    return load;
  }
}
