import { BATCH_HEADER_LENGTH } from '../delivering/batch.ts';
import { type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Commands, Partition } from '../store/partition.ts';

interface DropTarget {
  /** Estimate of the bytes that Redis would free if all batches and dead letters were dropped. */
  droppableBytes: number;
  /** Drop until Redis uses this many bytes; undefined if other data alone exceeds the high mark. */
  targetBytes: number | undefined;
}

export type Shortage = DropTarget & { memory: Memory };

/** Returns undefined unless Redis uses more memory than the high mark. Throws as Partition does. */
export async function findShortage(
  partition: Partition,
  limits: MemoryLimits,
): Promise<Shortage | undefined> {
  const memory = await readMemory(partition, limits);
  if (memory.used <= memory.highMark) return undefined;
  return { memory, ...(await findTarget(partition, memory)) };
}

/** Computes the target, whether or not there is a shortage now. Throws as Partition does. */
export async function findTarget(
  partition: Partition,
  { used, lowMark, highMark }: Memory,
): Promise<DropTarget> {
  const droppableBytes = await estimateDroppable(partition);
  const otherBytes = used - droppableBytes;
  if (otherBytes >= highMark) return { droppableBytes, targetBytes: undefined };
  // If other data exceeds the low mark, batches keep half of the memory between other data and the high mark.
  return { droppableBytes, targetBytes: otherBytes <= lowMark ? lowMark : (otherBytes + highMark) / 2 };
}

/**
 * Maximum number of batches, and of dead letters, whose size is measured. To measure 500 takes Redis about
 * 1 ms. If 1 % of the batches holds 90 % of the bytes, the standard deviation of the estimate is a quarter of
 * the true value. With a sample of 100 it would be more than half of it.
 */
const SAMPLE = 500;

/** Memory that a batch uses for its job and in indexes, in addition to its list; 390 to 510 were measured. */
const OVERHEAD_BYTES = 400;

/** Multiplies the number of events by the mean size of an event in a random sample of batches. */
async function estimateDroppable(partition: Partition): Promise<number> {
  return partition.command(async (redis, keys) => {
    const batches = { index: keys.batches_index(), gauge: keys.gauge_events(), list: keys.batch };
    const letters = {
      index: keys.dead_letters_index(),
      gauge: keys.dead_letters_events(),
      list: keys.dead_letter,
    };
    return sum(await Promise.all([batches, letters].map((kind) => estimateKind(redis, kind))));
  });
}

interface Kind {
  /** The key of the sorted set of all ids. */
  index: string;
  /** The key of the hash that holds the number of events of each subscriber. */
  gauge: string;
  list: (bid: string) => string;
}

async function estimateKind(redis: Commands, { index, gauge, list }: Kind): Promise<number> {
  const [count, events, bids] = await Promise.all([
    redis.zcard(index),
    redis.hvals(gauge),
    redis.zrandmember(index, SAMPLE),
  ]);
  const sample = await Promise.all(bids.map((bid) => measure(redis, list(bid))));
  const bytes = sum(sample.map((each) => each.bytes));
  const bytesPerEvent = bytes / Math.max(1, sum(sample.map((each) => each.events)));
  return sum(events.map(Number)) * bytesPerEvent + count * OVERHEAD_BYTES;
}

/** Returns zeros for a list that was deleted meanwhile. */
async function measure(redis: Commands, key: string): Promise<{ bytes: number; events: number }> {
  const [bytes, length] = await Promise.all([redis.memory('USAGE', key), redis.llen(key)]);
  return { bytes: bytes ?? 0, events: Math.max(0, length - BATCH_HEADER_LENGTH) };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
