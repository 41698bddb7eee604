import { cpuMicros } from '../../harness/measuring/cpu.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { openStore } from '../../harness/redis/store.ts';
import type { Batch } from '../../src/delivering/batch.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { Queue } from '../../src/delivering/queue.ts';
import type { Finished } from '../../src/delivering/settlement.ts';
import { takenRecord } from '../../src/delivering/taken_record.ts';
import { uids } from '../../src/ids.ts';

/** Number of workers whose jobs one script call finishes and replaces, as in a busy delivery thread. */
const AT_ONCE = 8;
/** A lane holds at most a quarter of the workers. */
const WORKERS = 4 * AT_ONCE;
const LEASE_MS = 600_000;

interface TakePlan {
  url: string;
  redisPid: number;
  /** Maximum number of records in the delivery log. */
  kept: number;
}

/** For eight calls in a row, whether the call is made with the delivery log. The order favours neither. */
const IS_LOGGED = [false, true, true, false, true, false, false, true];

/** One script call that acknowledged batches and acquired others. */
export interface Taken {
  isLogged: boolean;
  /** The CPU of Redis and of this thread together, for each batch. */
  microsBatch: number;
}

/**
 * Takes all ready batches as a delivery thread does, but without any request: each script call acknowledges eight
 * batches and acquires eight others, with or without the delivery log. Returns the calls.
 */
async function take({ url, redisPid, kept }: TakePlan): Promise<Taken[]> {
  const store = await openStore(url);
  const settings = { laneLimit: AT_ONCE, laneLimitMax: AT_ONCE, leaseMs: LEASE_MS };
  const without = new Queue(store, 'main', { ...settings, deliveryLog: 0 });
  const withLog = new Queue(store, 'main', { ...settings, deliveryLog: kept });
  const workers = uids(WORKERS);
  const taken: Taken[] = [];
  let { grants } = await without.acquire(workers);
  while (grants.length > 0) {
    const isLogged = IS_LOGGED[taken.length % IS_LOGGED.length] as boolean;
    const batches = grants.length;
    const [redisBefore, ownBefore] = [cpuMicros(redisPid), process.threadCpuUsage()];
    const finished = grants.map((grant) => finish(grant, isLogged));
    ({ grants } = await (isLogged ? withLog : without).acquire(workers.slice(0, AT_ONCE), finished));
    const own = process.threadCpuUsage(ownBefore);
    const micros = cpuMicros(redisPid) - redisBefore + own.user + own.system;
    taken.push({ isLogged, microsBatch: micros / batches });
  }
  await without.retire(workers);
  store.redis.disconnect();
  return taken;
}

function finish(grant: Grant, isLogged: boolean): Finished {
  const last = { atMs: grant.atMs, durationMs: 1, status: 204 };
  const record = isLogged ? takenRecord(grant.batch as Batch, last) : undefined;
  return { grant, heal: 1, tookMs: last.durationMs, record };
}

export type TakerCalls = { take: typeof take };
serveCalls({ take } satisfies TakerCalls);
