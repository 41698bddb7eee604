import type { Store } from './store.ts';

export interface MemoryLimits {
  /** What Redis may use; 0: as much as its own `maxmemory` lets it. */
  redisMaxBytes: number;
  redisMinFreeBytes: number;
}

/** Redis's memory, in bytes. */
export interface Memory {
  /** What counts against `maxmemory`: buffers of the AOF and of replicas do not. */
  used: number;
  /** The smaller of the configured limit and the server's; 0: unlimited. */
  max: number;
  /** Above it, autodrop starts; Infinity when unlimited. */
  highMark: number;
  /** Down to it, autodrop goes on; Infinity when unlimited. */
  lowMark: number;
  /** How many keys were deleted of which Redis has not freed all memory yet: a thread of its own does that. */
  unfreed: number;
  /** The server's `maxmemory-policy`; undefined if it does not say. */
  policy: string | undefined;
}

/** Throws as Store does. */
export async function readMemory(store: Store, limits: MemoryLimits): Promise<Memory> {
  return memoryIn(await store.command((redis) => redis.info('memory')), limits);
}

/** The memory in the text of `INFO memory`. */
export function memoryIn(info: string, limits: MemoryLimits): Memory {
  const used = infoNumber(info, 'used_memory') - infoNumber(info, 'mem_not_counted_for_evict');
  const both = [limits.redisMaxBytes, infoNumber(info, 'maxmemory')].filter((bytes) => bytes > 0);
  const max = both.length > 0 ? Math.min(...both) : 0;
  return {
    ...{ used, max, ...marks(max, limits.redisMinFreeBytes) },
    unfreed: infoNumber(info, 'lazyfree_pending_objects'),
    policy: infoField(info, 'maxmemory_policy'),
  };
}

/** A field of INFO as a number; 0 where there is none, as some hosts hide fields. */
export function infoNumber(info: string, name: string): number {
  return Number(infoField(info, name) ?? 0);
}

/** How many keys are bound to expire, in the text of `INFO keyspace`. */
export function expiringIn(info: string): number {
  return [...info.matchAll(/,expires=(\d+)/g)].reduce((total, [, keys]) => total + Number(keys), 0);
}

function infoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim();
}

/**
 * As in Routemaster, autodrop leaves between one and two times the free memory that is asked for; but where that would
 * drop half of what fits, as with the default 10 MB of a 20 MB Redis, between 10 % and 20 %.
 */
function marks(max: number, minFree: number): { highMark: number; lowMark: number } {
  if (max === 0) return { highMark: Number.POSITIVE_INFINITY, lowMark: Number.POSITIVE_INFINITY };
  const lowMark = max - 2 * minFree;
  if (lowMark > max / 2) return { highMark: max - minFree, lowMark };
  return { highMark: Math.floor(max * 0.9), lowMark: Math.floor(max * 0.8) };
}
