import { slicesOf } from '../chunks.ts';
import { sleep } from '../clock.ts';
import { sharing } from '../sharing.ts';
import { LASTING_SHORTAGE_MS, type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { sumOf } from '../sum.ts';
import { type DelayedHolding, delayedHoldings } from './delayed_drop.ts';
import { bytesOf, type Holding } from './fair_share.ts';

/** Estimates of what autodrop can drop: batches and dead letters by subscriber, and delayed events by topic. */
interface Holdings {
  holdings: Holding[];
  delayed: DelayedHolding[];
}

/**
 * A shortage of memory in one Redis. `holdings` and `delayed` cover all partitions in this Redis, because how much one
 * of them must drop depends on what the others hold.
 */
export interface Shortage extends Holdings {
  memory: Memory;
  /** The estimates for the partition of the autodrop job. The job drops only data of this partition. */
  own: Holdings;
  /** Estimate of the bytes that would be free if all batches, dead letters and delayed events were dropped. */
  droppableBytes: number;
  /** Bytes of the outbox entries in this Redis, which wait to be moved to other partitions. */
  outboxBytes: number;
  /** The bytes to which autodrop should reduce the data. Undefined if dropping would not help (see `targetOf`). */
  targetBytes: number | undefined;
}

/**
 * Returns the memory of Redis if it stores more than `mark` bytes both now and a second later; otherwise undefined. By
 * default, `mark` is the maximum that the bus permits (the high mark). One measurement is not enough, because the
 * buffers of connections can look like stored data for a second. Throws StorageUnavailable or StorageFull.
 */
export async function lastingShortage(
  partition: Partition,
  limits: MemoryLimits,
  signal: AbortSignal,
  mark?: number,
): Promise<Memory | undefined> {
  const before = await readMemory(partition, limits);
  if (before.used <= (mark ?? before.highMark)) return undefined;
  await sleep(LASTING_SHORTAGE_MS, signal);
  const now = await readMemory(partition, limits);
  const memory = { ...now, used: Math.min(before.used, now.used) };
  return memory.used <= (mark ?? memory.highMark) ? undefined : memory;
}

/**
 * Measures what autodrop can drop from all partitions in the Redis of `partition`. Returns undefined if `signal` is
 * aborted meanwhile. If another job is already measuring (see `measureHoldings`), this call waits for the result of
 * that job, and only the signal of that job can end the measurement.
 */
export async function measureShortage(
  partitions: Partitions,
  partition: Partition,
  memory: Memory,
  signal: AbortSignal,
): Promise<Shortage | undefined> {
  const there: readonly Partition[] = partitions.byRedis().find((each) => each.includes(partition)) ?? [];
  const found = await holdingsIn(there, memory, signal);
  if (!found) return undefined;
  const own = found[there.indexOf(partition)] ?? { holdings: [], delayed: [] };
  const outboxes = await Promise.all(there.map((each) => readOutboxes(each, there)));
  const outboxBytes = sumOf(outboxes.map(({ all }) => all));
  const stayingBytes = sumOf(outboxes.map(({ staying }) => staying));
  const droppableBytes = droppableIn(found);
  const targetBytes = targetOf(memory, droppableBytes, stayingBytes);
  const holdings = found.flatMap((each) => each.holdings);
  const delayed = found.flatMap((each) => each.delayed);
  return { memory, own, holdings, delayed, droppableBytes, outboxBytes, targetBytes };
}

/**
 * Returns two sums of bytes of outbox entries of `partition`.
 * - `all`: the bytes of all entries.
 * - `staying`: the bytes of the entries for partitions in the same Redis (`there`), where their events will become
 *   batches. The partition is known only for entries that were set aside because their partition is slow. All other
 *   entries count as staying, so the sum may be too high.
 */
async function readOutboxes(partition: Partition, there: readonly Partition[]) {
  const [outbox, aside] = await partition.command((redis, keys) =>
    Promise.all([redis.hget(keys.outboxes_sent(), 'bytes'), redis.hgetall(keys.outboxes_bytes())]),
  );
  return {
    staying: sumOf([outbox, ...there.map(({ index }) => aside[index] ?? 0)].map(Number)),
    all: sumOf([outbox, ...Object.values(aside)].map(Number)),
  };
}

/**
 * Maximum part of the used memory that the estimates may leave unexplained. If they leave more, all batches are
 * measured. Otherwise a client whose estimate is too low, by chance or on purpose, would lose nothing, and other
 * clients would lose data in its place.
 */
const MAX_UNEXPLAINED = 1 / 8;

/**
 * Returns estimates for each of these partitions of one Redis: the bytes of each subscriber's batches and dead letters,
 * and of each topic's delayed events. If the estimates add up to much less than the memory that Redis uses
 * (MAX_UNEXPLAINED), measures all batches: a million take about 4 s, in script calls of 0.3 ms. Returns undefined if
 * `signal` is aborted meanwhile.
 */
async function holdingsIn(
  there: readonly Partition[],
  memory: Memory,
  signal: AbortSignal,
): Promise<Holdings[] | undefined> {
  const found = await Promise.all(there.map(holdingsOf));
  if (memory.used - droppableIn(found) <= memory.used * MAX_UNEXPLAINED) return found;
  const measured: Holdings[] = [];
  for (const [index, { holdings: estimates, delayed }] of found.entries()) {
    const holdings = await measureHoldings(there[index] as Partition, estimates, signal);
    if (!holdings) return undefined;
    measured.push({ holdings, delayed });
  }
  return measured;
}

async function holdingsOf(partition: Partition): Promise<Holdings> {
  return { holdings: await estimateHoldings(partition), delayed: await delayedHoldings(partition) };
}

function droppableIn(found: readonly Holdings[]): number {
  return bytesOf(found.flatMap(({ holdings, delayed }) => [...holdings, ...delayed]));
}

/**
 * Returns the bytes to which autodrop should reduce the stored data. `otherBytes` is what it cannot drop now. This
 * includes `stayingBytes` of outbox entries, which it can drop later, when they have become batches in this Redis.
 * - If `otherBytes` is at most `lowMark`, returns `lowMark`.
 * - If it is below `highMark`, returns the middle of `otherBytes` and `highMark`, so that the queues keep some room.
 * - If it is above `highMark` only because of `stayingBytes`, returns the middle of `highMark` and `max`.
 * - Otherwise returns undefined, because dropping would not help.
 */
function targetOf(
  { used, max, lowMark, highMark }: Memory,
  droppableBytes: number,
  stayingBytes: number,
): number | undefined {
  const otherBytes = used - droppableBytes;
  if (otherBytes >= highMark) return otherBytes - stayingBytes < highMark ? (highMark + max) / 2 : undefined;
  return otherBytes <= lowMark ? lowMark : (otherBytes + highMark) / 2;
}

/**
 * Maximum batches, and also maximum dead letters, that one script call measures as a sample. 500 take Redis about 1 ms.
 * With fewer, the estimate would be worse if most of the bytes are in a few large batches.
 */
const SAMPLE = 500;
const MIN_SAMPLE_EACH = 5;

async function estimateHoldings(partition: Partition): Promise<Holding[]> {
  const tokens = await partition.command(async (redis, keys) => {
    const gauges = [keys.gauge_batches(), keys.dead_letters_events()];
    const counts = await Promise.all(gauges.map((gauge) => redis.hgetall(gauge)));
    return [...new Set(counts.flatMap((each) => Object.keys(each)))];
  });
  const samples = Math.max(MIN_SAMPLE_EACH, Math.floor(SAMPLE / Math.max(1, tokens.length)));
  const perCall = Math.floor(SAMPLE / samples);
  const holdings: Holding[] = [];
  for (const some of slicesOf(tokens, perCall)) {
    const held = await partition.run('holdings', { samples, tokens: some });
    for (const [index, { batches, bytes, deadLetters, deadLetterBytes }] of held.entries())
      holdings.push({
        token: some[index] ?? '',
        batches: batches + deadLetters,
        bytes: bytes + deadLetterBytes,
      });
  }
  return holdings;
}

type Measuring = (estimates: readonly Holding[], signal: AbortSignal) => Promise<Holding[] | undefined>;

/** For each partition, the function with which all jobs of this process measure it (see `measureHoldings`). */
const measuringIn = new WeakMap<Partition, Measuring>();

/**
 * Measures all batches and dead letters of the subscribers in `estimates`. Returns undefined if `signal` is aborted
 * before the end. The autodrop jobs of all partitions in a Redis call this at the same time, and share one measurement
 * of each partition. Without sharing, 16 jobs took 17 s for 300,000 batches.
 */
function measureHoldings(partition: Partition, ...args: Parameters<Measuring>): ReturnType<Measuring> {
  const measuring =
    measuringIn.get(partition) ??
    sharing<Parameters<Measuring>, Holding[] | undefined>(async (estimates, signal) => {
      const holdings: Holding[] = [];
      for (const { token } of estimates)
        holdings.push({ token, ...(await measureOldest(partition, token, Number.MAX_SAFE_INTEGER, signal)) });
      return signal.aborted ? undefined : holdings;
    });
  measuringIn.set(partition, measuring);
  return measuring(...args);
}

/**
 * Measures the dead letters and then the batches of a subscriber, or of all subscribers if `token` is undefined, the
 * oldest first: the order in which autodrop drops them. Ends when their bytes reach `maxBytes`, or when `signal` is
 * aborted. Returns their number and bytes.
 */
export async function measureOldest(
  partition: Partition,
  token: string | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Omit<Holding, 'token'>> {
  const sum = { batches: 0, bytes: 0 };
  for (const isDead of [true, false])
    for (let from = 0; !signal.aborted; ) {
      const args = { token, isDead, from, maxBytes: maxBytes - sum.bytes };
      const { measured, bytes } = await partition.run('measure', args);
      if (measured === 0) break;
      from += measured;
      sum.batches += measured;
      sum.bytes += bytes;
    }
  return sum;
}
