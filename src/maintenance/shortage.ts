import { BATCH_HEADER_LENGTH } from '../delivering/batch.ts';
import { type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Commands, Partition } from '../store/partition.ts';

/** Redis uses more memory than the high mark. */
export interface Shortage extends DropTarget {
  memory: Memory;
}

export interface DropTarget {
  /** About how many bytes Redis would free if all batches and dead letters were dropped. */
  droppableBytes: number;
  /** Drop until Redis uses this many bytes; undefined if other data alone exceeds the high mark, so that dropping is useless. */
  targetBytes: number | undefined;
}

/** Undefined if there is no shortage. Throws as Partition does. */
export async function findShortage(store: Partition, limits: MemoryLimits): Promise<Shortage | undefined> {
  const memory = await readMemory(store, limits);
  if (memory.used <= memory.highMark) return undefined;
  return { memory, ...(await findTarget(store, memory)) };
}

/** What can be dropped, and how far, whether or not there is a shortage now. Throws as Partition does. */
export async function findTarget(store: Partition, { used, lowMark, highMark }: Memory): Promise<DropTarget> {
  const droppableBytes = await estimateDroppable(store);
  const otherBytes = used - droppableBytes;
  if (otherBytes >= highMark) return { droppableBytes, targetBytes: undefined };
  // If other data exceeds the low mark, batches keep half of the room between it and the high mark.
  return { droppableBytes, targetBytes: otherBytes <= lowMark ? lowMark : (otherBytes + highMark) / 2 };
}

/**
 * How many batches, and how many dead letters, are measured: 1 ms of Redis. If one batch in a hundred holds nine tenths of the
 * bytes, the standard deviation of the estimate is a quarter; with a sample of 100 it would be more than a half.
 */
const SAMPLE = 500;

/** What a batch takes in indexes and as a job, beside its list: 390 to 510 were measured. */
const OVERHEAD_BYTES = 400;

/** Multiplies the number of all events, which the gauges hold, by the mean size of events in a random sample of batches. */
async function estimateDroppable(store: Partition): Promise<number> {
  return store.command(async (redis, keys) => {
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
  /** The sorted set of all ids. */
  index: string;
  /** The hash of the number of events by subscriber. */
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

/** A list that is gone by now counts nothing. */
async function measure(redis: Commands, key: string): Promise<{ bytes: number; events: number }> {
  const [bytes, length] = await Promise.all([redis.memory('USAGE', key), redis.llen(key)]);
  return { bytes: bytes ?? 0, events: Math.max(0, length - BATCH_HEADER_LENGTH) };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
