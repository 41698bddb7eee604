import { BATCH_HEADER_LENGTH } from '../delivering/batch.ts';
import { type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Commands, Store } from '../store/store.ts';

/** Memory is beyond the high mark. */
export interface Shortage {
  memory: Memory;
  /** About how many bytes Redis would free if all batches and dead letters were dropped. */
  droppable: number;
  /** Down to how many bytes to drop; undefined if other things reach beyond the high mark: dropping does not help. */
  aim: number | undefined;
}

/** Undefined if there is no shortage. Throws as Store does. */
export async function findShortage(store: Store, limits: MemoryLimits): Promise<Shortage | undefined> {
  const memory = await readMemory(store, limits);
  if (memory.used <= memory.highMark) return undefined;
  return { memory, ...(await findAim(store, memory)) };
}

/** What can be dropped, and down to where, whether or not there is a shortage now. Throws as Store does. */
export async function findAim(
  store: Store,
  { used, lowMark, highMark }: Memory,
): Promise<Omit<Shortage, 'memory'>> {
  const droppable = await droppableBytes(store);
  const others = used - droppable;
  if (others >= highMark) return { droppable, aim: undefined };
  // Where others reach beyond the low mark, what is queued keeps half of the room that they leave.
  return { droppable, aim: others <= lowMark ? lowMark : (others + highMark) / 2 };
}

/**
 * Of how many batches, and of how many dead letters, the size is asked: 1 ms of Redis. Where a hundredth of them holds nine
 * tenths of the bytes, so many tell them by a quarter (a standard deviation), and a hundred by more than a half.
 */
const SAMPLE = 500;

/** What the indexes and the job of a batch take beside its list, in bytes: 390 to 510 were measured. */
const BESIDE_BYTES = 400;

/** All events, which the gauges count, are taken to be of the size that those of some batches have, drawn by lot. */
async function droppableBytes(store: Store): Promise<number> {
  return store.command(async (redis, keys) => {
    const batches = { index: keys.batches_index(), gauge: keys.gauge_events(), list: keys.batch };
    const letters = {
      index: keys.dead_letters_index(),
      gauge: keys.dead_letters_events(),
      list: keys.dead_letter,
    };
    return sum(await Promise.all([batches, letters].map((kind) => sizeOf(redis, kind))));
  });
}

interface Kind {
  /** Sorted set of all. */
  index: string;
  /** Hash of how many events there are, by subscriber. */
  gauge: string;
  list: (bid: string) => string;
}

async function sizeOf(redis: Commands, { index, gauge, list }: Kind): Promise<number> {
  const [count, events, bids] = await Promise.all([
    redis.zcard(index),
    redis.hvals(gauge),
    redis.zrandmember(index, SAMPLE),
  ]);
  const drawn = await Promise.all(bids.map((bid) => measure(redis, list(bid))));
  const bytes = sum(drawn.map((each) => each.bytes));
  const perEvent = bytes / Math.max(1, sum(drawn.map((each) => each.events)));
  return sum(events.map(Number)) * perEvent + count * BESIDE_BYTES;
}

/** Nothing of what is gone by now. */
async function measure(redis: Commands, key: string): Promise<{ bytes: number; events: number }> {
  const [bytes, length] = await Promise.all([redis.memory('USAGE', key), redis.llen(key)]);
  return { bytes: bytes ?? 0, events: Math.max(0, length - BATCH_HEADER_LENGTH) };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
