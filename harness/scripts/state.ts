import { type QueueName, SHARES, type Share } from '../../src/store/job.ts';
import type { Readable } from './image.ts';
import { jobName, shortName } from './names.ts';

interface BatchState {
  token: string;
  attempts: number;
  events: string[];
}

/** One queue; its jobs by name. */
export interface QueueState {
  index: string[];
  /** The job that is due next comes first. */
  scheduled: string[];
  /** The job that will be acquired next comes first. Jobs of dropped batches are left out. */
  instant: string[];
  /** Keyed by worker. */
  pending: Record<string, string[]>;
  pendingIndex: string[];
}

/** The lanes. `waiting` and `inFlight` are keyed by subscriber, `held` by worker. */
interface LaneState {
  /** The jobs that wait outside the queue. The one that has waited longest comes first. */
  waiting: Record<string, string[]>;
  inFlight: Record<string, number>;
  /** The subscriber to which each worker delivers. */
  held: Record<string, string>;
  /** The jobs that wait for room in a share of the workers. Jobs of dropped batches are left out. */
  sharing: Record<Share, string[]>;
  /** The workers in each share. */
  shares: Record<Share, string[]>;
  /** The jobs of suspects, which wait for a quarantine to deliver them alone. Jobs of dropped batches are left out. */
  suspects: string[];
}

export const EMPTY_LANES: LaneState = {
  waiting: {},
  inFlight: {},
  held: {},
  sharing: { slow: [], failing: [], joins: [] },
  shares: { slow: [], failing: [], joins: [] },
  suspects: [],
};

/** The batches and jobs in Redis. Batches have short names. */
export interface State {
  batches: Record<string, BatchState>;
  /** `batches:index`, oldest first. */
  index: string[];
  /** `batches:index:{token}`, oldest first. */
  queued: Record<string, string[]>;
  current: Record<string, string[]>;
  gauges: { events: Record<string, number>; batches: Record<string, number> };
  main: QueueState;
  aux: QueueState;
  lanes: LaneState;
}

export const EMPTY_QUEUE: QueueState = {
  index: [],
  scheduled: [],
  instant: [],
  pending: {},
  pendingIndex: [],
};

/** The state of a bus that never had an event. */
export const EMPTY: State = {
  batches: {},
  index: [],
  queued: {},
  current: {},
  gauges: { events: {}, batches: {} },
  main: EMPTY_QUEUE,
  aux: EMPTY_QUEUE,
  lanes: EMPTY_LANES,
};

export async function readState(store: Readable): Promise<State> {
  const { redis, keys } = store;
  const main = await readQueue(store, 'main');
  return {
    batches: await readBatches(store),
    index: (await redis.zrange(keys.batches_index(), '0', '-1')).map(shortName),
    queued: await byToken(store, keys.batches_queued(''), (key) => redis.zrange(key, '0', '-1')),
    current: await byToken(store, keys.batches_current(''), async (key) =>
      (await redis.smembers(key)).sort(),
    ),
    gauges: {
      events: numbers(await redis.hgetall(keys.gauge_events())),
      batches: numbers(await redis.hgetall(keys.gauge_batches())),
    },
    main,
    aux: await readQueue(store, 'aux'),
    lanes: await readLanes(store, main),
  };
}

async function readBatches({ redis, keys }: Readable): Promise<Record<string, BatchState>> {
  const batches: Record<string, BatchState> = {};
  for (const key of (await redis.keys(keys.batch('*'))).sort()) {
    const [token = '', , attempts, ...events] = await redis.lrange(key, '0', '-1');
    const bid = key.slice(keys.batch('').length);
    batches[shortName(bid)] = { token, attempts: Number(attempts), events };
  }
  return batches;
}

async function byToken(store: Readable, prefix: string, read: (key: string) => Promise<string[]>) {
  const found: Record<string, string[]> = {};
  for (const key of await store.redis.keys(`${prefix}*`)) {
    found[key.slice(prefix.length)] = (await read(key)).map(shortName);
  }
  return found;
}

async function readQueue({ redis, keys }: Readable, q: QueueName): Promise<QueueState> {
  const pending: Record<string, string[]> = {};
  for (const key of await redis.keys(keys.jobs_pending(q, '*'))) {
    pending[key.slice(keys.jobs_pending(q, '').length)] = (await redis.lrangeBuffer(key, '0', '-1')).map(
      jobName,
    );
  }
  const index = (await redis.smembersBuffer(keys.jobs_index(q))).map(jobName).sort();
  const instant = (await redis.lrangeBuffer(keys.jobs_instant(q), '0', '-1')).map(jobName).reverse();
  return {
    index,
    scheduled: (await redis.zrangeBuffer(keys.jobs_scheduled(q), '0', '-1')).map(jobName),
    instant: instant.filter((job) => index.includes(job)),
    pending,
    pendingIndex: (await redis.smembers(keys.jobs_pending_index(q))).sort(),
  };
}

async function readLanes({ redis, keys }: Readable, { index }: QueueState): Promise<LaneState> {
  const waiting: Record<string, string[]> = {};
  for (const key of await redis.keys(keys.jobs_waiting('*'))) {
    const token = key.slice(keys.jobs_waiting('').length);
    waiting[token] = (await redis.zrangeBuffer(key, '0', '-1')).map(jobName);
  }
  return {
    waiting,
    inFlight: numbers(await redis.hgetall(keys.lanes_in_flight())),
    held: await redis.hgetall(keys.lanes_held()),
    sharing: await byShare(async (share) => {
      const jobs = await redis.lrangeBuffer(keys.share_jobs(share), '0', '-1');
      return jobs.map(jobName).filter((job) => index.includes(job));
    }),
    shares: await byShare(async (share) => (await redis.smembers(keys.share_workers(share))).sort()),
    suspects: (await redis.lrangeBuffer(keys.jobs_suspect(), '0', '-1'))
      .map(jobName)
      .filter((job) => index.includes(job)),
  };
}

async function byShare(read: (share: Share) => Promise<string[]>): Promise<Record<Share, string[]>> {
  const [slow = [], failing = [], joins = []] = await Promise.all(SHARES.map(read));
  return { slow, failing, joins };
}

function numbers(hash: Record<string, string>): Record<string, number> {
  return Object.fromEntries(Object.entries(hash).map(([field, value]) => [field, Number(value)]));
}
