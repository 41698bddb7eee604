import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';

/** Maximum bytes of the entries in one script call. A single entry that is larger is read or sent alone. */
export const MAX_BYTES = 1_000_000;
/** Maximum entries that are read at a time. */
export const MAX_ENTRIES = 500;

/**
 * The worker that runs the job of an outbox. `lease` is the number of the worker's lease for this job. The lease
 * expires after `leaseMs` without a sign of life from the worker.
 */
export interface OutboxHolder {
  worker: string;
  lease: number;
  leaseMs: number;
}

/**
 * A list of outbox entries in the partition `home`. Without `aside`, the list is the outbox of `home`. If `aside` is
 * given, it is the index of another partition, and the list has the entries that are set aside for that partition.
 * `holder` is the worker that empties the list as its job.
 */
interface OutboxList {
  home: Partition;
  aside?: number;
  holder?: OutboxHolder | undefined;
}

/** The first entries of a list. The partitions in `late` have not applied them yet, but all other partitions have. */
export interface Handled {
  entries: readonly Buffer[];
  late?: readonly number[];
}

/**
 * Removes the handled entries (the second argument) from a list, and resolves with the next ones. Copies of the removed
 * entries are set aside for the partitions in `late`, so that other partitions need not wait for the late ones. If the
 * call is repeated, it removes nothing.
 *
 * `behind` has the partitions that must first apply the entries set aside for them. If no entry is left, the script
 * deletes the job of `holder` in the same step, and `ended` is true. If the worker no longer holds the job, `ended` is
 * false.
 */
export function readNext(
  { home, aside, holder }: OutboxList,
  { entries, late = [] }: Handled = { entries: [] },
): Promise<Reply<'read_outbox'>> {
  return home.run('read_outbox', {
    ...holder,
    partition: aside?.toString(),
    last: entries.length > 0 ? lastNumber(entries) : undefined,
    count: entries.length,
    bytes: bytesOf(entries),
    late: late.map(String),
    maxEntries: MAX_ENTRIES,
    maxBytes: MAX_BYTES,
  });
}

/** Matches the head of an entry: its number, and the numbers of the partitions that it is for. */
const HEAD = /^(\d{16})([\d,]+):/;
/**
 * Number of bytes at the beginning of an entry that are searched for its head. With 256 partitions, the most that a bus
 * can have, a head has up to 930 bytes.
 */
const HEAD_BYTES = 1000;

export function headOf(entry: Buffer): { number: number; partitions: number[] } {
  const [, number, partitions] = HEAD.exec(entry.toString('latin1', 0, HEAD_BYTES)) ?? [];
  if (!number || !partitions) throw new Error('an entry of an outbox has no head');
  return { number: Number(number), partitions: partitions.split(',').map(Number) };
}

/** Returns the number of the last entry. The list must not be empty. */
export function lastNumber(entries: readonly Buffer[]): number {
  return headOf(entries.at(-1) as Buffer).number;
}

export function bytesOf(entries: readonly Buffer[]): number {
  return entries.reduce((sum, { length }) => sum + length, 0);
}
