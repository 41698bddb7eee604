import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { type Bulk, readBulk } from '../delivering/dead_letters/bulks.ts';
import { DONE, triedAgainIn } from '../delivering/settlement.ts';
import { StorageFull } from '../errors.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Reply } from '../store/contracts.ts';
import { readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { JobParts } from './job_parts.ts';
import { lastingJob } from './lasting_job.ts';

/**
 * A job that retries or purges many dead letters works for up to RUN_MS, then pauses for REST_MS so that other jobs
 * run.
 */
const RUN_MS = 200;
const REST_MS = 20;
/**
 * A job that retries many dead letters stops while Redis is short of memory, because retries take memory. It measures
 * the memory again after this time.
 */
const SHORT_MS = 5000;
/**
 * Maximum dead letters in one script call: COUNTED if it counts them, and CHANGED if it retries or purges them. A call
 * takes Redis a few milliseconds.
 */
const COUNTED = 1000;
const CHANGED = 100;

type BulkJobParts = Pick<JobParts, 'partition' | 'config' | 'stopping' | 'log'> & {
  recorder: Pick<Recorder, 'added'>;
};

type StepState = Reply<'count_bulk'>;
type Part = Bulk & { tokenIndex: number };

/**
 * Returns the handler of the `bulk` jobs, which retry or purge many dead letters for a client or for root (the owner).
 * The first job counts them. When the owner has confirmed the count, another job retries or purges them. Each script
 * call also stores the progress, so a job goes on where it stopped, even if a process is killed.
 */
export function bulkJob({ partition, config, recorder, stopping, log }: BulkJobParts) {
  return lastingJob(async ({ job }, signal) => {
    const [owner = '', id = ''] = (job?.args ?? []) as string[];
    const read = () => partOf(partition, owner, id);
    const endMs = clock.monotonicMs() + RUN_MS;
    try {
      for (let part = await read(); part; ) {
        if (part.state === 'running' && part.act === 'retry' && (await isShort(partition, config)))
          return await waitForMemory(owner, id);
        let state: StepState = 'going';
        while (state === 'going') {
          if (signal.aborted || stopping.aborted || clock.monotonicMs() >= endMs)
            return triedAgainIn(REST_MS);
          state = await step(owner, part);
        }
        // Read the progress in Redis, unless the bulk operation is over. If `state` is `next`, the dead letters of the
        // next subscriber follow. If it is `lost`, the script call has changed nothing: another worker has finished
        // this subscriber, or the operation was cancelled or replaced.
        part = state === 'over' ? undefined : await read();
      }
    } catch (error) {
      if (error instanceof StorageFull) return waitForMemory(owner, id);
      throw error;
    }
    return DONE;
  }, log);

  /**
   * Ends this run of the job; the next one begins after SHORT_MS. Keeps the record of the operation for another day.
   * Otherwise the operation could expire, because memory can be short for days.
   */
  async function waitForMemory(owner: string, id: string) {
    await partition.run('keep_bulk', { owner, id });
    return triedAgainIn(SHORT_MS);
  }

  async function step(owner: string, { id, act, state, tokenIndex, tokens }: Part): Promise<StepState> {
    const asked = { owner, id, listIndex: tokenIndex, token: tokens?.[tokenIndex] };
    if (state === 'counting') return partition.runPermitted('count_bulk', { ...asked, max: COUNTED });
    const changes = { ...asked, max: CHANGED };
    if (act === 'purge')
      return partition.runPermitted('purge_bulk', { ...changes, deliveryLog: config.deliveryLog });
    const reply = await partition.runPermitted('retry_bulk', changes);
    for (const { token, events } of reply.revived) recorder.added(token, events);
    return reply.state;
  }
}

/**
 * Returns what is left of a bulk operation in this partition. `tokens` has the tokens of the subscribers whose dead
 * letters must be counted, retried or purged. The next subscriber is at `tokenIndex`. Returns undefined if the
 * operation is over, waits for its owner's confirmation, or was replaced by a newer one.
 */
async function partOf(partition: Partition, owner: string, id: string): Promise<Part | undefined> {
  const record = await partition.command((redis, keys) => redis.hgetall(keys.bulk(owner)));
  const bulk = readBulk(record);
  const isActive = bulk?.id === id && (bulk.state === 'counting' || bulk.state === 'running');
  return isActive ? { ...bulk, tokenIndex: Number(record.queue) } : undefined;
}

async function isShort(partition: Partition, config: Config): Promise<boolean> {
  const { used, highMark } = await readMemory(partition, config);
  return used > highMark;
}
