import { sleep } from '../clock.ts';
import { MEASURE_EVERY_MS, type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';

/** Maximum delivery logs that one script call deletes. */
const LOGS_SLICE = 10;

/**
 * Deletes delivery logs, the longest first, until Redis uses at most `target` bytes. Returns the memory in use after
 * that. Throws StorageUnavailable or StorageFull.
 */
export async function dropRecords(
  partition: Partition,
  limits: MemoryLimits,
  found: Memory,
  target: number,
  signal: AbortSignal,
): Promise<Memory> {
  let memory = found;
  for (let left = 1; !signal.aborted; memory = await readMemory(partition, limits)) {
    if (memory.unfreed > 0) await sleep(MEASURE_EVERY_MS, signal);
    else if (left === 0 || memory.used <= target) break;
    else left = await partition.run('drop_logs', { maxLogs: LOGS_SLICE });
  }
  return memory;
}
