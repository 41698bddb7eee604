import type { Partition } from './partition.ts';

export interface MemoryLimits {
  /** Limit on Redis's memory; 0 means that only Redis's own `maxmemory` counts. */
  redisMaxBytes: number;
  redisMinFreeBytes: number;
}

/** Redis's memory, in bytes. */
export interface Memory {
  /** Memory that counts against `maxmemory`; excludes the buffers of the AOF and of replicas. */
  used: number;
  /** The smaller of the configured limit and the server's; 0 if there is none. */
  max: number;
  /** Autodrop starts above this; Infinity if there is no limit. */
  highMark: number;
  /** Autodrop stops at this; Infinity if there is no limit. */
  lowMark: number;
  /** Number of deleted keys whose memory Redis's background thread has not freed yet. */
  unfreed: number;
  /** The server's `maxmemory-policy`; undefined if the host hides it. */
  policy: string | undefined;
}

export async function readMemory(partition: Partition, limits: MemoryLimits): Promise<Memory> {
  return memoryIn(await partition.command((redis) => redis.info('memory')), limits);
}

/** Parses the text of `INFO memory`. */
export function memoryIn(info: string, limits: MemoryLimits): Memory {
  const used = infoNumber(info, 'used_memory') - infoNumber(info, 'mem_not_counted_for_evict');
  const both = [limits.redisMaxBytes, infoNumber(info, 'maxmemory')].filter((bytes) => bytes > 0);
  const max = both.length > 0 ? Math.min(...both) : 0;
  return {
    used,
    max,
    ...marks(max, limits.redisMinFreeBytes),
    unfreed: infoNumber(info, 'lazyfree_pending_objects'),
    policy: infoField(info, 'maxmemory_policy'),
  };
}

/** A field of INFO as a number; 0 if it is missing, as some hosts hide fields. */
export function infoNumber(info: string, name: string): number {
  return Number(infoField(info, name) ?? 0);
}

/** The number of keys with an expiry, from the text of `INFO keyspace`. */
export function expiringIn(info: string): number {
  return [...info.matchAll(/,expires=(\d+)/g)].reduce((total, [, keys]) => total + Number(keys), 0);
}

/** Returns a field of INFO as text; undefined if it is missing. */
export function infoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim();
}

/**
 * Returns the marks between which autodrop keeps the memory: as in the Ruby Routemaster, one to two times
 * `minFree` remain free. If two times `minFree` is more than half of the memory, 10 to 20 % remain free
 * instead.
 */
function marks(max: number, minFree: number): { highMark: number; lowMark: number } {
  if (max === 0) return { highMark: Number.POSITIVE_INFINITY, lowMark: Number.POSITIVE_INFINITY };
  const lowMark = max - 2 * minFree;
  if (lowMark > max / 2) return { highMark: max - minFree, lowMark };
  return { highMark: Math.floor(max * 0.9), lowMark: Math.floor(max * 0.8) };
}
