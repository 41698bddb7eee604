import { sleep } from '../clock.ts';
import type { Config } from '../config.ts';
import { sumOf } from '../sum.ts';
import type { Partition } from './partition.ts';
import type { Partitions } from './partitions.ts';

export type MemoryLimits = Pick<Config, 'redisMaxBytes' | 'redisMinFreeBytes'>;

/**
 * A Redis must be above its high mark (see `Memory`) for this long before the bus refuses publishes and drops data. A
 * shorter excess may be the buffer of a large reply (255 MB, for example). Redis measures its buffers only once a
 * second; until then, a buffer looks like stored data.
 */
export const LASTING_SHORTAGE_MS = 1100;

/** All sizes are in bytes. */
export interface Memory {
  /**
   * Bytes of stored data, without the buffers of connections, replicas and AOF. A new buffer may count as stored data
   * for up to a second (see `LASTING_SHORTAGE_MS`).
   */
  used: number;
  /** The smaller of the configured limit and Redis's `maxmemory`; 0 if neither is set. */
  max: number;
  /** Autodrop begins when `used` is above this. Infinity if there is no limit. */
  highMark: number;
  /** Autodrop ends when `used` has fallen to this. Infinity if there is no limit. */
  lowMark: number;
  /** Number of deleted keys whose memory a background thread of Redis has not freed yet. */
  unfreed: number;
  /** The `maxmemory-policy` by which Redis may delete events. Undefined if it is noeviction, or not known. */
  wrongPolicy?: string | undefined;
}

/** Reads the memory of the Redis that has a partition. Throws StorageUnavailable if that Redis is away. */
export async function readMemory(partition: Partition, limits: MemoryLimits): Promise<Memory> {
  return memoryIn(await partition.command((redis) => redis.info('memory')), limits);
}

const MEASURE_EVERY_MS = 5;

/**
 * Returns false as soon as Redis stores at most `target` bytes, or when `signal` is aborted. Redis frees the memory of
 * deleted keys in the background. If Redis has freed all of it and still stores more than `target`, returns true.
 */
export async function staysAbove(
  target: number,
  partition: Partition,
  limits: MemoryLimits,
  signal: AbortSignal,
): Promise<boolean> {
  while (!signal.aborted) {
    const { used, unfreed } = await readMemory(partition, limits);
    if (used <= target) return false;
    if (unfreed === 0) return true;
    await sleep(MEASURE_EVERY_MS, signal);
  }
  return false;
}

/**
 * Reads the memory of the fullest Redis. `away` has the partitions that are away. Throws if all are.
 */
export async function readFullestMemory(
  partitions: Partitions,
  limits: MemoryLimits,
): Promise<{ memory: Memory; away: Partition[] }> {
  const redises = partitions.byRedis();
  const { found, away } = await partitions.reach(
    (partition) => readMemory(partition, limits),
    redises.map(([one]) => one),
  );
  return {
    memory: fullest(found),
    away: redises.filter(([one]) => away.includes(one)).flat(),
  };
}

/**
 * Returns the memory of the fullest Redis: the one whose `used` is the greatest part of its `highMark`. If no Redis has
 * a limit, returns the memory of the Redis that stores most. In the result, `wrongPolicy` may be that of another Redis:
 * it is undefined only if no Redis has a wrong policy.
 */
export function fullest(memories: readonly Memory[]): Memory {
  const fullness = ({ used, highMark }: Memory) => used / highMark;
  const fullestFirst = memories.toSorted(
    (one, other) => fullness(other) - fullness(one) || other.used - one.used,
  );
  const wrongPolicy = memories.find((each) => each.wrongPolicy !== undefined)?.wrongPolicy;
  return { ...(fullestFirst[0] as Memory), wrongPolicy };
}

export function memoryIn(info: string, limits: MemoryLimits): Memory {
  const used = Math.max(0, infoNumber(info, 'used_memory') - bufferBytesIn(info));
  const both = [limits.redisMaxBytes, infoNumber(info, 'maxmemory')].filter((bytes) => bytes > 0);
  const max = both.length > 0 ? Math.min(...both) : 0;
  return {
    used,
    max,
    ...marks(max, limits.redisMinFreeBytes),
    unfreed: infoNumber(info, 'lazyfree_pending_objects'),
    wrongPolicy: wrongPolicyIn(info),
  };
}

/**
 * Returns how many bytes of Redis's memory are buffers for clients, replicas and the AOF. INFO has two figures for the
 * buffers of replicas and the AOF: the sum of two fields, and `mem_not_counted_for_evict`. The larger one is used.
 */
function bufferBytesIn(info: string): number {
  const replicasAndAof =
    infoNumber(info, 'mem_total_replication_buffers') + infoNumber(info, 'mem_aof_buffer');
  const notCounted = infoNumber(info, 'mem_not_counted_for_evict');
  return infoNumber(info, 'mem_clients_normal') + Math.max(replicasAndAof, notCounted);
}

/** Returns a field of the INFO text as a number; 0 if it is missing, since some hosting providers hide fields. */
export function infoNumber(info: string, name: string): number {
  return Number(infoField(info, name) ?? 0);
}

/** Returns the number of keys that expire, from the text of `INFO keyspace`. */
export function expiringIn(info: string): number {
  return sumOf(Array.from(info.matchAll(/,expires=(\d+)/g), ([, keys]) => Number(keys)));
}

/** Returns the `maxmemory-policy` in the INFO text. Undefined if it is right, or hidden by a hosting provider. */
export function wrongPolicyIn(info: string): string | undefined {
  const policy = infoField(info, 'maxmemory_policy');
  return policy === 'noeviction' ? undefined : policy;
}

export function infoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim();
}

/**
 * Returns the high and the low mark, by the rules of the Ruby Routemaster. Above the high mark, the bus refuses
 * publishes, and drops data down to the low mark. The marks are `max` minus `minFree`, and `max` minus twice `minFree`.
 * But if `minFree` is a quarter of `max` or more, they are 90 % and 80 % of `max`.
 */
function marks(max: number, minFree: number): { highMark: number; lowMark: number } {
  if (max === 0) return { highMark: Number.POSITIVE_INFINITY, lowMark: Number.POSITIVE_INFINITY };
  const lowMark = max - 2 * minFree;
  if (lowMark > max / 2) return { highMark: max - minFree, lowMark };
  return { highMark: Math.floor(max * 0.9), lowMark: Math.floor(max * 0.8) };
}
