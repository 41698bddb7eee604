import type { Log } from '../log.ts';
import { type Memory, type MemoryLimits, readMemory } from '../models/memory.ts';
import type { Store } from '../redis/store.ts';
import type { Recorder } from '../services/metrics/recorder.ts';
import { DONE, type JobHandler } from './job_handler.ts';

/** The most batches that one script call drops: a few milliseconds of Redis. */
const SLICE = 100;

/** The `autodrop` job: beyond the high mark, drops the oldest batches until the low mark or until none is left. */
export function autodropJob(store: Store, limits: MemoryLimits, recorder: Recorder, log: Log): JobHandler {
  return async (_grant, signal) => {
    let memory = await readMemory(store, limits);
    if (memory.used <= memory.highMark) return DONE;
    log.warn({ ...memory }, 'Redis is short of memory; dropping the oldest batches');
    let [batches, events] = [0, 0];
    while (memory.used > memory.lowMark && !signal.aborted) {
      const dropped = await dropOldest(store, await slice(store, memory), recorder);
      if (dropped.batches === 0) break;
      batches += dropped.batches;
      events += dropped.events;
      memory = await readMemory(store, limits);
    }
    log.warn({ batches, events, used: memory.used }, 'dropped the oldest batches');
    return DONE;
  };
}

/**
 * Half of what would do if batches were all of one size: a hundred batches of 400 kB are everything that 20 MB hold.
 * What is still missing then goes in the next steps.
 */
async function slice(store: Store, { used, lowMark }: Memory): Promise<number> {
  const batches = await store.command((redis, keys) => redis.zcard(keys.batches_index()));
  return Math.min(SLICE, Math.ceil((batches * (used - lowMark)) / used / 2));
}

async function dropOldest(
  store: Store,
  most: number,
  recorder: Recorder,
): Promise<{ batches: number; events: number }> {
  const [batches, dropped] = (await store.run('autodrop', most)) as [number, (Buffer | number)[]];
  let events = 0;
  for (let i = 0; i < dropped.length; i += 2) {
    recorder.autodropped(String(dropped[i]), Number(dropped[i + 1]));
    events += Number(dropped[i + 1]);
  }
  return { batches, events };
}
