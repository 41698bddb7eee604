import { StorageForbidden } from '../errors.ts';
import { type Keyspace, PROCESS_TYPES, type ProcessType } from './keys.ts';
import { isSharded, type Listener } from './listener.ts';
import type { Partition } from './partition.ts';
import { msOf } from './replies.ts';

export type ProcessCounts = Record<ProcessType, number>;

/**
 * Makes `countProcesses` count this process until the returned function is called. For this, the process listens to a
 * channel on which nothing is ever sent. `countProcesses` asks Redis for the number of listeners, so a killed process
 * is no longer counted. `onCounted` is called when Redis counts the process, and again whenever a lost connection is
 * back.
 */
export function showPresence(
  listener: Listener,
  keys: Keyspace,
  type: ProcessType,
  onCounted: () => void,
): () => void {
  return listener.listen({ channels: [keys.processes(type)], hear() {}, listens: onCounted });
}

/**
 * Counts the living processes of the bus. Returns undefined if the ACL does not permit PUBSUB, which older releases of
 * the bus did not need. Throws StorageUnavailable if Redis is away.
 */
export async function countProcesses(control: Partition): Promise<ProcessCounts | undefined> {
  const channels = PROCESS_TYPES.map((type) => control.keys.processes(type));
  const question = isSharded(channels) ? 'SHARDNUMSUB' : 'NUMSUB';
  try {
    const reply = (await control.command((redis) =>
      redis.call('PUBSUB', question, ...channels),
    )) as unknown[];
    // The reply is a flat list: each channel, and then the number of its listeners.
    const [web, worker] = [reply[1], reply[3]];
    return { web: Number(web), worker: Number(worker) };
  } catch (error) {
    if (error instanceof StorageForbidden) return undefined;
    throw error;
  }
}

/**
 * The number of living workers, and the time since one of them last gave a sign of life (Infinity if none is alive).
 */
export interface LivingWorkers {
  count: number;
  silentMs: number;
}

/** Finds the workers that gave a sign of life within the last `leaseMs`, including workers of a Ruby Routemaster. */
export async function livingWorkers(partition: Partition, leaseMs: number): Promise<LivingWorkers> {
  const [time, heard] = await partition.command((redis, keys) =>
    Promise.all([redis.time(), redis.hvals(keys.workers())]),
  );
  const ages = heard.map((atMs) => Math.max(0, msOf(time) - Number(atMs)));
  const living = ages.filter((ageMs) => ageMs <= leaseMs);
  return { count: living.length, silentMs: Math.min(...living) };
}
