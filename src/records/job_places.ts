import { type QueueName, SHARES } from '../store/job.ts';
import type { Keyspace } from '../store/keys.ts';
import type { Commands } from '../store/partition.ts';

/** Maximum subscribers whose waiting jobs are looked for in one call; 1,000 take Redis about a millisecond. */
const MAX_LANES = 1000;

/** A job, with what the place where it was found tells about it. */
export interface FoundJob {
  packed: Buffer;
  /** When a scheduled job is due, in ms. */
  dueMs?: number;
  worker?: string;
  /** When the lease began, or since when the job waits, in ms. */
  sinceMs?: number;
}

/** Where the reading of a place stopped. Each kind of place has a form of its own, which only it reads. */
export type Position = readonly string[];

/** Some jobs of a place. `end` is the position after which the next slice begins; undefined if no job follows. */
export interface JobSlice {
  jobs: FoundJob[];
  end?: Position | undefined;
  /** Number of names of workers or subscribers that were looked through, besides the jobs. */
  looked?: number;
}

/**
 * A place of jobs: a list, a sorted set, all workers or all lanes. Returns up to `max` of its jobs after a position.
 * The work is bounded, however many jobs there are.
 */
export type JobPlace = (
  redis: Commands,
  keys: Keyspace,
  after: Position | undefined,
  max: number,
) => Promise<JobSlice>;

/** The states of a job, in the order in which the jobs are listed. */
export const JOB_STATES = ['pending', 'instant', 'waiting', 'scheduled'] as const;
export type JobState = (typeof JOB_STATES)[number];

/** Returns the places that hold a queue's jobs in this state. */
export function jobPlaces(q: QueueName, state: JobState): JobPlace[] {
  if (state === 'pending') return [held(q)];
  if (state === 'scheduled') return [scheduled(q)];
  // Instant jobs enter the list at the left and leave it at the right. Pages are read from the left: each job that
  // enters meanwhile moves the others to the right, so that a later page shows one of them again. Read from the
  // right, each job that leaves would let a page miss one.
  if (state === 'instant') return [list((keys) => keys.jobs_instant(q), 'left')];
  if (q === 'aux') return [];
  const shares = SHARES.map((share) => list((keys) => keys.share_jobs(share), 'right'));
  return [...shares, list((keys) => keys.jobs_suspect(), 'right'), lanes];
}

function list(keyOf: (keys: Keyspace) => string, end: 'left' | 'right'): JobPlace {
  return async (redis, keys, after, max) => {
    const from = Number(after?.[0] ?? 0);
    const [first, last] = end === 'left' ? [from, from + max] : [-(from + max + 1), -(from + 1)];
    const found = await redis.lrangeBuffer(keyOf(keys), first, last);
    if (end === 'right') found.reverse();
    const jobs = found.slice(0, max).map((packed) => ({ packed }));
    return { jobs, end: found.length > max ? [String(from + max)] : undefined };
  };
}

function scheduled(q: QueueName): JobPlace {
  return async (redis, keys, after, max) => {
    const { entries, end } = await sorted(redis, keys.jobs_scheduled(q), after, max);
    return { jobs: entries.map(({ packed, score }) => ({ packed, dueMs: Number(score) })), end };
  };
}

/** Jobs that wait in lanes, subscriber by subscriber. A position is a token and a position in its sorted set. */
const lanes: JobPlace = async (redis, keys, after, max) => {
  const [last, ...inside] = after ?? [];
  const all = (await redis.smembers(keys.subscribers())).sort();
  const rest = all.filter(
    (each) => last === undefined || each > last || (inside.length > 0 && each === last),
  );
  const tokens = rest.slice(0, MAX_LANES);
  const counts = await Promise.all(tokens.map((token) => redis.zcard(keys.jobs_waiting(token))));
  const jobs: FoundJob[] = [];
  const looked = all.length;
  let read = last;
  for (const token of tokens.filter((_, index) => (counts[index] ?? 0) > 0)) {
    if (jobs.length === max) return { jobs, looked, end: [read as string] };
    const from = token === last ? inside : undefined;
    const { entries, end } = await sorted(redis, keys.jobs_waiting(token), from, max - jobs.length);
    for (const { packed, score } of entries) jobs.push({ packed, sinceMs: Math.floor(Number(score) / 1000) });
    if (end) return { jobs, looked, end: [token, ...end] };
    read = token;
  }
  return { jobs, looked, end: rest.length > tokens.length ? [tokens.at(-1) as string] : undefined };
};

/** The jobs that workers hold. A position is the id of the last worker that was read. */
function held(q: QueueName): JobPlace {
  return async (redis, keys, after, max) => {
    const all = (await redis.smembers(keys.jobs_pending_index(q))).sort();
    const rest = after ? all.filter((each) => each > String(after[0])) : all;
    const workers = rest.slice(0, max);
    if (workers.length === 0) return { jobs: [] };
    const [leases, lists] = await Promise.all([
      redis.hmget(keys.leases(), ...workers),
      Promise.all(workers.map((each) => redis.lrangeBuffer(keys.jobs_pending(q, each), 0, -1))),
    ]);
    const jobs = workers.flatMap((worker, index) => {
      // The number of a lease is the time (µs) at which it was given.
      const lease = leases[index];
      const since = lease ? { sinceMs: Math.floor(Number(lease) / 1000) } : {};
      return (lists[index] ?? []).map((packed) => ({ packed, worker, ...since }));
    });
    const end = rest.length > workers.length ? [workers.at(-1) as string] : undefined;
    return { jobs, looked: all.length, end };
  };
}

interface Entry {
  packed: Buffer;
  score: string;
}

/** Reads a sorted set. A position is the score of the last job and the job in Base64: many jobs may share a score. */
async function sorted(redis: Commands, key: string, after: Position | undefined, max: number) {
  const [score = '', member = ''] = after ?? [];
  const last = Buffer.from(member, 'base64url');
  const { rank, isGone } = after ? await rankAfter(redis, key, score, last) : { rank: 0, isGone: false };
  const flat = await redis.zrangeBuffer(key, String(rank), String(rank + max), 'WITHSCORES');
  const read: Entry[] = [];
  for (let i = 0; i < flat.length; i += 2)
    read.push({ packed: flat[i] as Buffer, score: String(flat[i + 1]) });
  const page = read.slice(0, max);
  const seen = (each: Entry) => isGone && each.score === score && Buffer.compare(each.packed, last) <= 0;
  const end = page.at(-1);
  return {
    entries: page.filter((each) => !seen(each)),
    end: end && read.length > max ? [end.score, end.packed.toString('base64url')] : undefined,
  };
}

/** Returns the rank behind the last job that was read. If it is gone, returns the rank of the first with its score. */
async function rankAfter(redis: Commands, key: string, score: string, last: Buffer) {
  const [now, rank] = await Promise.all([redis.zscore(key, last), redis.zrank(key, last)]);
  if (now === score && rank !== null) return { rank: rank + 1, isGone: false };
  return { rank: await redis.zcount(key, '-inf', `(${score}`), isGone: true };
}
