import { type QueueName, SHARES } from '../store/job.ts';
import type { Keyspace } from '../store/keys.ts';
import type { Commands } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';

/**
 * Number of workers or subscribers after which one call of a JobPlace (a function that lists jobs) stops, even if it
 * has found fewer jobs than asked for. Looking at 1,000 takes Redis about a millisecond.
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
 * Where a JobPlace (a function that lists jobs) stopped reading, so that the next call can continue there. For a list
 * of jobs, for example, the position is the number of jobs that have been read.
 */
export type Position = readonly string[];

/**
 * The jobs that one call of a JobPlace has read. `end` is where the next call continues; undefined if no job follows.
 */
interface JobSlice {
  jobs: FoundJob[];
  end?: Position | undefined;
  /**
   * Number of workers (for pending jobs) or subscribers (for waiting jobs) whose jobs were looked for. The rate limit
   * charges a page by it.
   */
  looked?: number;
}

/**
 * A function that reads up to `max` jobs of one kind, such as the waiting jobs of all subscribers. It begins after the
 * position `after`. Fewer jobs than `max` do not mean that no more follow (see MAX_LOOKED_THROUGH).
 */
export type JobPlace = (
  redis: Commands,
  keys: Keyspace,
  after: Position | undefined,
  max: number,
) => Promise<JobSlice>;

/** The states of a job, in the order of the listing. */
export const JOB_STATES = ['pending', 'instant', 'waiting', 'scheduled'] as const;
export type JobState = (typeof JOB_STATES)[number];

/** Returns the functions that together read all jobs that a queue has in this state. */
export function jobPlaces(q: QueueName, state: JobState): JobPlace[] {
  if (state === 'pending') return [heldJobs(q)];
  if (state === 'scheduled') return [scheduledJobs(q)];
  // While a list is read page by page, jobs enter it at one end (`left` or `right`) and leave it at the other. Reading
  // begins where they enter. New jobs move read ones to later pages, so a job may be shown twice, but none is missed.
  if (state === 'instant') return [list((keys) => keys.jobs_instant(q), 'left')];
  if (q === 'aux') return [];
  const shares = SHARES.map((share) => list((keys) => keys.share_jobs(share), 'right'));
  return [...shares, list((keys) => keys.jobs_suspect(), 'right'), waitingJobs];
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

function scheduledJobs(q: QueueName): JobPlace {
  return async (redis, keys, after, max) => {
    const { entries, end } = await sorted(redis, keys.jobs_scheduled(q), after, max);
    return { jobs: entries.map(({ packed, score }) => ({ packed, dueMs: Number(score) })), end };
  };
}

/**
 * Reads the waiting jobs of all subscribers, one subscriber after the other. A position, from which the next call goes
 * on, has two or three parts:
 * - a cursor, which names one portion of the SSCAN over all subscribers;
 * - the last subscriber of this portion whose jobs were read (see `scanNames`);
 * - if this subscriber has more jobs, its last job that was read (see `sorted`).
 */
const waitingJobs: JobPlace = async (redis, keys, after, max) => {
  let [cursor = START, last = '', ...inside] = after ?? [];
  const jobs: FoundJob[] = [];
  let looked = 0;
  while (looked < MAX_LOOKED_THROUGH && jobs.length < max) {
    const { names, next } = await scanNames(redis, keys.subscribers(), cursor);
    const tokens = names.filter((each) => each > last || (inside.length > 0 && each === last));
    const counts = await Promise.all(tokens.map((token) => redis.zcard(keys.jobs_waiting(token))));
    looked += names.length;
    for (const token of tokens.filter((_, index) => (counts[index] ?? 0) > 0)) {
      if (jobs.length === max) return { jobs, looked, end: [cursor, last] };
      const from = token === last ? inside : undefined;
      const { entries, end } = await sorted(redis, keys.jobs_waiting(token), from, max - jobs.length);
      for (const { packed, score } of entries)
        jobs.push({ packed, sinceMs: Math.floor(Number(score) / 1000) });
      if (end) return { jobs, looked, end: [cursor, token, ...end] };
      [last, inside] = [token, []];
    }
    if (next === undefined) return { jobs, looked };
    [cursor, last, inside] = [next, '', []];
  }
  return { jobs, looked, end: [cursor, last] };
};

/**
 * Reads the jobs that workers hold, one worker after the other. The next call continues at a position of two parts: the
 * cursor of an SSCAN over all workers, and the worker that was read last (see `scanNames`).
 */
function heldJobs(q: QueueName): JobPlace {
  return async (redis, keys, after, max) => {
    let [cursor = START, last = ''] = after ?? [];
    const jobs: FoundJob[] = [];
    let looked = 0;
    while (looked < MAX_LOOKED_THROUGH && jobs.length < max) {
      const { names, next } = await scanNames(redis, keys.jobs_pending_index(q), cursor);
      const workers = names.filter((each) => each > last);
      const found = workers.map((worker) =>
        Promise.all([
          redis.hget(keys.leases(), worker),
          redis.lrangeBuffer(keys.jobs_pending(q, worker), 0, -1),
        ]),
      );
      looked += names.length;
      for (const [index, [lease, held]] of (await Promise.all(found)).entries()) {
        if (held.length > 0 && jobs.length === max) return { jobs, looked, end: [cursor, last] };
        last = workers[index] as string;
        // The number of a lease is the time (µs) at which the worker got the job, or later if the clock was set back.
        const since = lease ? { sinceMs: Math.floor(Number(lease) / 1000) } : {};
        for (const packed of held) jobs.push({ packed, worker: last, ...since });
      }
      if (next === undefined) return { jobs, looked };
      [cursor, last] = [next, ''];
    }
    return { jobs, looked, end: [cursor, last] };
  };
}

/**
 * Reads some names of a set by one SSCAN from `cursor`, and returns them sorted. If a page ends in the middle of these
 * names, the next page repeats the SSCAN and goes on after the last name that was used. Without the sorting, the names
 * could come in another order the second time.
 */
async function scanNames(redis: Commands, key: string, cursor: string) {
  const [next, names] = await redis.sscan(key, cursor, 'COUNT', NAMES_PER_SCAN);
  return { names: names.sort(), next: next === START ? undefined : next };
}
const START = '0';

interface Entry {
  packed: Buffer;
  score: string;
}

/**
 * Reads jobs from a sorted set. A position has the score of the last job that was read and, because several jobs may
 * have the same score, the job itself (as Base64).
 */
async function sorted(redis: Commands, key: string, after: Position | undefined, max: number) {
  const [score = '', member = ''] = after ?? [];
  const last = Buffer.from(member, 'base64url');
  const { rank, lastHasMoved } = after
    ? await rankAfter(redis, key, score, last)
    : { rank: 0, lastHasMoved: false };
  const flat = await redis.zrangeBuffer(key, String(rank), String(rank + max), 'WITHSCORES');
  const read = pairsOf(flat).map(([packed, score]): Entry => ({ packed, score: String(score) }));
  const page = read.slice(0, max);
  const seen = (each: Entry) =>
    lastHasMoved && each.score === score && Buffer.compare(each.packed, last) <= 0;
  const end = page.at(-1);
  return {
    entries: page.filter((each) => !seen(each)),
    end: end && read.length > max ? [end.score, end.packed.toString('base64url')] : undefined,
  };
}

/**
 * Returns the index in the sorted set at which the next read begins: the one after the job `last`. If `last` has left
 * its place, the read begins at the first job with the old score or a higher one, and `lastHasMoved` is true. The
 * caller must then skip the jobs that it has read before.
 */
async function rankAfter(redis: Commands, key: string, score: string, last: Buffer) {
  const [now, rank] = await Promise.all([redis.zscore(key, last), redis.zrank(key, last)]);
  if (now === score && rank !== null) return { rank: rank + 1, lastHasMoved: false };
  return { rank: await redis.zcount(key, '-inf', `(${score}`), lastHasMoved: true };
}
