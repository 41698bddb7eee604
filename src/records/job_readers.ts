import { type QueueName, SHARES } from '../store/job.ts';
import type { Keyspace } from '../store/keys.ts';
import type { Commands, Partition } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';

/**
 * Number of owners (workers or subscribers) after which a JobReader stops, even if its page is not full. Looking at
 * 1,000 owners takes Redis about a millisecond.
 */
const MAX_LOOKED_THROUGH = 1000;
/** Number of workers or subscribers that one SSCAN command reads. */
const OWNERS_PER_SCAN = 200;

/** A job that was found in Redis. Its state decides which optional fields it has. */
export interface FoundJob {
  packed: Buffer;
  dueMs?: number;
  worker?: string;
  /** When a pending job was acquired, or a waiting job began to wait, in ms. */
  sinceMs?: number;
}

/** The jobs that one call of a JobReader has read. */
interface JobSlice<Place = unknown> {
  jobs: FoundJob[];
  /** The `place` for the next call of the JobReader; undefined if no job follows. */
  next?: Place | undefined;
  /**
   * Number of workers (for pending jobs) or subscribers (for waiting jobs) whose jobs were looked for. The larger it
   * is, the more a page counts in the rate limit.
   */
  looked?: number;
}

/**
 * A function that reads up to `max` jobs of one kind, such as the waiting jobs of all subscribers. It begins at
 * `place`, which is the `next` of its previous result. Even if it returns fewer jobs than `max`, more may follow (see
 * MAX_LOOKED_THROUGH). If the jobs of a worker or subscriber cannot be read, calls `skip` with the error.
 */
export type JobReader = (
  redis: Commands,
  keys: Keyspace,
  place: unknown,
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
  // `left` or `right` is the end at which new jobs enter the list. The first page begins there. Jobs that enter before
  // the next page is read push the other jobs away from this end. So the next page may repeat some jobs, but misses
  // none.
  if (state === 'instant') return [list((keys) => keys.jobs_instant(q), 'left')];
  if (q === 'aux') return [];
  const shares = SHARES.map((share) => list((keys) => keys.share_jobs(share), 'right'));
  return [...shares, list((keys) => keys.jobs_suspect(), 'right'), waitingJobs];
}

/** Returns a function that reads a list. The function's `place` is the number of jobs that earlier calls have read. */
function list(keyOf: (keys: Keyspace) => string, end: 'left' | 'right'): JobReader {
  return async (redis, keys, place, max) => {
    const from = Number(place ?? 0);
    const [first, last] = end === 'left' ? [from, from + max] : [-(from + max + 1), -(from + 1)];
    const found = await redis.lrangeBuffer(keyOf(keys), first, last);
    if (end === 'right') found.reverse();
    const jobs = found.slice(0, max).map((packed) => ({ packed }));
    return { jobs, next: found.length > max ? from + max : undefined };
  };
}

function scheduledJobs(q: QueueName): JobReader {
  const jobOf = (packed: Buffer, dueMs: number) => ({ packed, dueMs });
  return (redis, keys, place, max) =>
    sorted(redis, keys.jobs_scheduled(q), place as SortedPlace | undefined, max, jobOf);
}

/** Reads the waiting jobs of all subscribers, one subscriber after the other. */
const waitingJobs = ofOwners(
  (keys) => keys.subscribers(),
  async (redis, keys, token, skip) => {
    const key = keys.jobs_waiting(token);
    if (!(await redis.zcard(key).catch(skip))) return undefined;
    const jobOf = (packed: Buffer, us: number) => ({ packed, sinceMs: Math.floor(us / 1000) });
    return (place, max) => sorted(redis, key, place, max, jobOf);
  },
);

/** Returns a function that reads the pending jobs: one of each worker at most. */
function heldJobs(q: QueueName): JobReader {
  return ofOwners(
    (keys) => keys.jobs_pending_index(q),
    async (redis, keys, worker, skip) => {
      const [lease, packed] = await Promise.all([
        redis.hget(keys.leases(), worker),
        redis.lindexBuffer(keys.jobs_pending(q, worker), 0).catch(skip),
      ]);
      if (!packed) return undefined;
      // The number of a lease is the time (µs) at which the worker got the job. If Redis's clock was set back, the
      // number may be a later time.
      const job = { packed, worker, ...(lease && { sinceMs: Math.floor(Number(lease) / 1000) }) };
      return () => Promise.resolve({ jobs: [job] });
    },
  );
}

/** Reads up to `max` jobs of one worker or subscriber, from `place` on. */
type OwnerReader = (place: SortedPlace | undefined, max: number) => Promise<JobSlice<SortedPlace>>;

/** Returns the function that reads the jobs of `owner` (a worker or a subscriber); undefined if `owner` has no jobs. */
type FindReader = (
  redis: Commands,
  keys: Keyspace,
  owner: string,
  skip: Partition['skip'],
) => Promise<OwnerReader | undefined>;

/**
 * Where the next page of a listing begins. The listing reads the names of workers or subscribers by SSCAN, sorts each
 * reply, and reads the jobs of one name after the other.
 */
interface OwnersPlace {
  /** The cursor of the SSCAN command whose reply has `owner`. */
  cursor: string;
  /**
   * The worker or subscriber whose jobs are read next. An empty text stands for the first one in the reply to SSCAN.
   */
  owner: string;
  /** The last job of `owner` that was read; undefined if none was read yet. */
  inside?: SortedPlace;
}
const FIRST_OWNER: OwnersPlace = { cursor: '0', owner: '' };

/**
 * Returns a function that reads the jobs of the workers or subscribers whose names are in a Redis set (its key is
 * `setOf(keys)`). It reads the jobs of one name after the other.
 */
function ofOwners(setOf: (keys: Keyspace) => string, findReader: FindReader): JobReader {
  return async (redis, keys, place, max, skip) => {
    const jobs: FoundJob[] = [];
    let looked = 0;
    for (let at = (place ?? FIRST_OWNER) as OwnersPlace; ; ) {
      const { cursor } = at;
      const [nextCursor, names] = await redis.sscan(setOf(keys), cursor, 'COUNT', OWNERS_PER_SCAN);
      looked += names.length;
      // If a page ends in the middle of `names`, the next page sends the same SSCAN again. Redis may then return the
      // same names in another order, so the names are sorted.
      const owners = names.filter((name) => name >= at.owner).sort();
      const readers = await Promise.all(owners.map((owner) => findReader(redis, keys, owner, skip)));
      for (const [index, read] of readers.entries()) {
        if (!read) continue;
        const owner = owners[index] as string;
        if (jobs.length === max) return { jobs, looked, next: { cursor, owner } };
        const slice = await read(owner === at.owner ? at.inside : undefined, max - jobs.length);
        jobs.push(...slice.jobs);
        if (slice.next) return { jobs, looked, next: { cursor, owner, inside: slice.next } };
      }
      if (nextCursor === '0') return { jobs, looked };
      at = { cursor: nextCursor, owner: '' };
      if (looked >= MAX_LOOKED_THROUGH || jobs.length >= max) return { jobs, looked, next: at };
    }
  };
}

/** The last job that was read from a sorted set (as Base64), and its score. Other jobs may have the same score. */
interface SortedPlace {
  score: string;
  job: string;
}

/** Reads up to `max` jobs from a sorted set, beginning after the job `place`. */
async function sorted(
  redis: Commands,
  key: string,
  place: SortedPlace | undefined,
  max: number,
  jobOf: (packed: Buffer, score: number) => FoundJob,
): Promise<JobSlice<SortedPlace>> {
  const last = Buffer.from(place?.job ?? '', 'base64url');
  const rank = place ? await rankAfter(redis, key, place.score, last) : 0;
  const flat = await redis.zrangeBuffer(key, String(rank), String(rank + max), 'WITHSCORES');
  const read = pairsOf(flat).map(([packed, score]) => ({ packed, score: String(score) }));
  const page = read.slice(0, max);
  // Usually `read` begins after `last`, the last job of the previous page. But if `last` has left the set or has a new
  // score, `read` begins with the first job that has the old score of `last`. Earlier pages may have shown jobs of this
  // score, so `unseen` leaves out those up to `last`.
  const unseen = page.filter(
    ({ packed, score }) => score !== place?.score || Buffer.compare(packed, last) > 0,
  );
  const end = page.at(-1);
  return {
    jobs: unseen.map(({ packed, score }) => jobOf(packed, Number(score))),
    next: end && read.length > max ? { score: end.score, job: end.packed.toString('base64url') } : undefined,
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
