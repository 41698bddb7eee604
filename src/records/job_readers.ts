import { type QueueName, SHARES } from '../store/job.ts';
import type { Keyspace } from '../store/keys.ts';
import type { Commands, Partition } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';

/**
 * Number of workers or subscribers after which a JobReader (a function that lists jobs) stops, even if its page is not
 * full. Looking at 1,000 takes Redis about a millisecond.
 */
const MAX_LOOKED_THROUGH = 1000;
/** Number of workers or subscribers that one SSCAN command reads. */
const NAMES_PER_SCAN = 200;

/** A job that was found in Redis. Its state decides which optional fields it has. */
export interface FoundJob {
  packed: Buffer;
  dueMs?: number;
  worker?: string;
  /** When a pending job was acquired, or a waiting job began to wait, in ms. */
  sinceMs?: number;
}

/**
 * The jobs that one call of a JobReader has read. `end` is where the next call continues; undefined if no job follows.
 */
interface JobSlice {
  jobs: FoundJob[];
  end?: unknown;
  /**
   * Number of workers (for pending jobs) or subscribers (for waiting jobs) whose jobs were looked for. The rate limit
   * charges a page by it.
   */
  looked?: number;
}

/**
 * A function that reads up to `max` jobs of one kind, such as the waiting jobs of all subscribers. It continues at
 * `after`, the `end` of its previous result. If it returns fewer jobs than `max`, more may still follow (see
 * MAX_LOOKED_THROUGH). With `skip` it passes over the jobs of a worker or subscriber that cannot be read.
 */
export type JobReader = (
  redis: Commands,
  keys: Keyspace,
  after: unknown,
  max: number,
  skip: Partition['skip'],
) => Promise<JobSlice>;

/** The states of a job, in the order of the listing. */
export const JOB_STATES = ['pending', 'instant', 'waiting', 'scheduled'] as const;
export type JobState = (typeof JOB_STATES)[number];

/** Returns the functions that together read all jobs that a queue has in this state. */
export function jobReaders(q: QueueName, state: JobState): JobReader[] {
  if (state === 'pending') return [heldJobs(q)];
  if (state === 'scheduled') return [scheduledJobs(q)];
  // New jobs enter a list at the end `left` or `right`, and the first page begins there. A job that enters before the
  // next page is read shifts all others to higher positions. So the next page may repeat a job, but misses none.
  if (state === 'instant') return [list((keys) => keys.jobs_instant(q), 'left')];
  if (q === 'aux') return [];
  const shares = SHARES.map((share) => list((keys) => keys.share_jobs(share), 'right'));
  return [...shares, list((keys) => keys.jobs_suspect(), 'right'), waitingJobs];
}

/** Returns a function that reads a list. Its `after` is the number of jobs that earlier calls have read. */
function list(keyOf: (keys: Keyspace) => string, end: 'left' | 'right'): JobReader {
  return async (redis, keys, after, max) => {
    const from = Number(after ?? 0);
    const [first, last] = end === 'left' ? [from, from + max] : [-(from + max + 1), -(from + 1)];
    const found = await redis.lrangeBuffer(keyOf(keys), first, last);
    if (end === 'right') found.reverse();
    const jobs = found.slice(0, max).map((packed) => ({ packed }));
    return { jobs, end: found.length > max ? from + max : undefined };
  };
}

function scheduledJobs(q: QueueName): JobReader {
  return async (redis, keys, after, max) => {
    const { entries, end } = await sorted(redis, keys.jobs_scheduled(q), after as SortedEnd | undefined, max);
    return { jobs: entries.map(({ packed, score }) => ({ packed, dueMs: Number(score) })), end };
  };
}

/** Where a listing of jobs continues in a set of workers or subscribers (the owners of the jobs). */
interface OwnerEnd {
  /** The cursor of an SSCAN. Its reply is a list of names, which is sorted before use. */
  cursor: string;
  /**
   * The worker or subscriber whose jobs are read next. An empty text stands for the first name in the reply of the
   * SSCAN.
   */
  owner: string;
  /** Where to continue among the jobs of `owner`. Undefined if none of them was read yet. */
  inside?: SortedEnd;
}
const FIRST_OWNER: OwnerEnd = { cursor: '0', owner: '' };

/** Reads the waiting jobs of all subscribers, one subscriber after the other. */
const waitingJobs: JobReader = async (redis, keys, after, max, skip) => {
  const jobs: FoundJob[] = [];
  let looked = 0;
  for (let begin = (after ?? FIRST_OWNER) as OwnerEnd; ; ) {
    const { cursor } = begin;
    const { names, next } = await scanNames(redis, keys.subscribers(), cursor);
    looked += names.length;
    const tokens = names.filter((token) => token >= begin.owner);
    const counts = await Promise.all(
      tokens.map((token) => redis.zcard(keys.jobs_waiting(token)).catch(skip)),
    );
    for (const owner of tokens.filter((_, index) => (counts[index] ?? 0) > 0)) {
      if (jobs.length === max) return { jobs, looked, end: { cursor, owner } };
      const inside = owner === begin.owner ? begin.inside : undefined;
      const { entries, end } = await sorted(redis, keys.jobs_waiting(owner), inside, max - jobs.length);
      for (const { packed, score } of entries)
        jobs.push({ packed, sinceMs: Math.floor(Number(score) / 1000) });
      if (end) return { jobs, looked, end: { cursor, owner, inside: end } };
    }
    if (!next || looked >= MAX_LOOKED_THROUGH || jobs.length >= max) return { jobs, looked, end: next };
    begin = next;
  }
};

/** Reads the jobs that workers hold, one worker after the other. */
function heldJobs(q: QueueName): JobReader {
  return async (redis, keys, after, max, skip) => {
    const jobs: FoundJob[] = [];
    let looked = 0;
    for (let begin = (after ?? FIRST_OWNER) as OwnerEnd; ; ) {
      const { cursor } = begin;
      const { names, next } = await scanNames(redis, keys.jobs_pending_index(q), cursor);
      looked += names.length;
      const workers = names.filter((worker) => worker >= begin.owner);
      const found = workers.map((worker) =>
        Promise.all([
          redis.hget(keys.leases(), worker),
          redis.lindexBuffer(keys.jobs_pending(q, worker), 0).catch(skip),
        ]),
      );
      for (const [index, [lease, packed]] of (await Promise.all(found)).entries()) {
        if (!packed) continue;
        const worker = workers[index] as string;
        if (jobs.length === max) return { jobs, looked, end: { cursor, owner: worker } };
        // The number of a lease is the time (µs) at which the worker got the job, or later if the clock was set back.
        jobs.push({ packed, worker, ...(lease && { sinceMs: Math.floor(Number(lease) / 1000) }) });
      }
      if (!next || looked >= MAX_LOOKED_THROUGH || jobs.length >= max) return { jobs, looked, end: next };
      begin = next;
    }
  };
}

/**
 * Reads some names of a set by one SSCAN. `next` is where the next SSCAN begins; undefined if this was the last one. If
 * a page ends in the middle of these names, the next page repeats the SSCAN. The repeated SSCAN may return the names in
 * another order, so they are sorted.
 */
async function scanNames(redis: Commands, key: string, cursor: string) {
  const [next, names] = await redis.sscan(key, cursor, 'COUNT', NAMES_PER_SCAN);
  return { names: names.sort(), next: next === '0' ? undefined : { cursor: next, owner: '' } };
}

/** The last job that was read from a sorted set (as Base64), and its score. Other jobs may have the same score. */
interface SortedEnd {
  score: string;
  job: string;
}

/** Reads jobs from a sorted set, after the job `after`. */
async function sorted(redis: Commands, key: string, after: SortedEnd | undefined, max: number) {
  const last = Buffer.from(after?.job ?? '', 'base64url');
  const rank = after ? await rankAfter(redis, key, after.score, last) : 0;
  const flat = await redis.zrangeBuffer(key, String(rank), String(rank + max), 'WITHSCORES');
  const read = pairsOf(flat).map(([packed, score]) => ({ packed, score: String(score) }));
  const page = read.slice(0, max);
  const end = page.at(-1);
  return {
    // If `last`, the last job of the previous page, has left the set or has a new score, `read` begins with the first
    // job of its old score. Jobs of this score that earlier pages have shown are left out here.
    entries: page.filter(({ packed, score }) => score !== after?.score || Buffer.compare(packed, last) > 0),
    end: end && read.length > max ? { score: end.score, job: end.packed.toString('base64url') } : undefined,
  };
}

/**
 * Returns the rank of the first job after `last`, the last job of the previous page. If `last` has left the set or has
 * a new score, returns the rank of the first job with its old score.
 */
async function rankAfter(redis: Commands, key: string, score: string, last: Buffer): Promise<number> {
  const [now, rank] = await Promise.all([redis.zscore(key, last), redis.zrank(key, last)]);
  return now === score && rank !== null ? rank + 1 : redis.zcount(key, '-inf', `(${score}`);
}
