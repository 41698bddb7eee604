import { clock } from '../clock.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { packJob } from '../store/job.ts';
import type { Commands, Partition } from '../store/partition.ts';
import type { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { checkServer } from './schema.ts';

const SLICE = 300;
const HEADER_LENGTH = 3;
const TELL_EVERY_MS = 2000;

interface RehearsalParts {
  policy: CallbackPolicy;
  leaseMs: number;
  /** The check lists tokens with fewer characters than this. */
  minTokenLength: number;
  /** Called with a line of progress every few seconds. */
  tell: (progress: string) => void;
  log: Log;
}

/**
 * What a takeover of a Redis would do. Subscribers and clients appear under their names, not their tokens.
 */
export interface Rehearsal {
  /** Why this bus could not use this Redis; undefined if it could. */
  unfit: string | undefined;
  /** The layout version in this Redis; undefined if this bus never used it. */
  layout: string | undefined;
  /** Number of living Ruby workers, and the time since the last sign of life of one of them. */
  workers: { count: number; silentMs: number };
  subscribers: number;
  topics: number;
  clients: number;
  shortTokens: string[];
  refused: { subscriber: string; callback: string; reason: string }[];
  batches: { count: number; events: number; jobless: number; unindexed: number; unreadable: number };
  /** When the oldest batch was created (ms); undefined if there is none. */
  oldestMs: number | undefined;
  /** Number of entries of the index whose batches no longer exist. */
  lost: number;
}

/** Reads what a takeover would find. Sends only commands that read. Throws as Partition does. */
export async function rehearse(partition: Partition, parts: RehearsalParts): Promise<Rehearsal> {
  const { keys } = partition;
  const unfit = await checkServer(partition, parts.log).then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof BootError) return error.message;
      throw error;
    },
  );
  const [layout, topics, names] = await partition.command((redis) =>
    Promise.all([redis.get(keys.schema()), redis.scard(keys.topics()), redis.hgetall(keys.api_tokens())]),
  );
  const nameOf = (token: string) => names[token] ?? 'unknown';
  const short = Object.keys(names).filter((token) => token.length < parts.minTokenLength);
  return {
    unfit,
    layout: layout ?? undefined,
    workers: await readWorkers(partition, parts.leaseMs),
    topics,
    clients: Object.keys(names).length,
    shortTokens: short.map(nameOf),
    ...(await readSubscribers(partition, parts, nameOf)),
    ...(await readBatches(partition, parts)),
  };
}

async function readWorkers(partition: Partition, leaseMs: number): Promise<Rehearsal['workers']> {
  const [[seconds], heard] = await partition.command((redis, keys) =>
    Promise.all([redis.time(), redis.hvals(keys.workers())]),
  );
  const ages = heard.map((atMs) => Math.max(0, Number(seconds) * 1000 - Number(atMs)));
  const living = ages.filter((ageMs) => ageMs <= leaseMs);
  return { count: living.length, silentMs: Math.min(...living) };
}

async function readSubscribers(
  partition: Partition,
  { policy, tell }: RehearsalParts,
  nameOf: (token: string) => string,
): Promise<Pick<Rehearsal, 'subscribers' | 'refused'>> {
  const tokens = await partition.command((redis, keys) => redis.smembers(keys.subscribers()));
  const refused: Rehearsal['refused'] = [];
  const progress = reporter(tell, 'callbacks', tokens.length);
  for (let at = 0; at < tokens.length; at += SLICE) {
    const slice = tokens.slice(at, at + SLICE);
    const callbacks = await partition.command((redis, keys) =>
      Promise.all(slice.map((token) => redis.hget(keys.subscriber(token), 'callback'))),
    );
    const reasons = await Promise.all(callbacks.map((callback) => policy.refusal(callback ?? '')));
    for (const [index, reason] of reasons.entries()) {
      if (reason === undefined) continue;
      const callback = URL.parse(callbacks[index] ?? '')?.origin ?? 'no URL';
      refused.push({ subscriber: nameOf(slice[index] ?? ''), callback, reason });
    }
    progress(at + slice.length);
  }
  return { subscribers: tokens.length, refused };
}

async function readBatches(
  partition: Partition,
  { tell }: RehearsalParts,
): Promise<Pick<Rehearsal, 'batches' | 'oldestMs' | 'lost'>> {
  const { keys } = partition;
  const batches = { count: 0, events: 0, jobless: 0, unindexed: 0, unreadable: 0 };
  let oldestMs = Number.POSITIVE_INFINITY;
  const entries = await partition.command((redis) => redis.zcard(keys.batches_index()));
  const progress = reporter(tell, 'batches', entries);
  for await (const bids of strays(partition)) {
    for (const each of await partition.command((redis) => readSlice(redis, partition, bids))) {
      batches.count++;
      batches.jobless += Number(!each.hasJob);
      batches.unindexed += Number(!each.isIndexed);
      batches.unreadable += Number(each.createdAtMs === undefined);
      if (each.createdAtMs === undefined) continue;
      batches.events += each.events;
      oldestMs = Math.min(oldestMs, each.createdAtMs);
    }
    progress(batches.count);
  }
  const lost = Math.max(0, entries - (batches.count - batches.unindexed));
  return { batches, oldestMs: Number.isFinite(oldestMs) ? oldestMs : undefined, lost };
}

/** Yields the UIDs of batches whose keys have names of the Ruby Routemaster. Each UID is yielded once. */
async function* strays(partition: Partition): AsyncGenerator<string[]> {
  const seen = new Set<string>();
  const pattern = partition.keys.ruby_batch('*');
  for (let cursor = '', first = true; first || cursor !== '0'; first = false) {
    const [next, found] = await partition.command((redis) =>
      redis.scan(cursor || '0', 'MATCH', pattern, 'COUNT', SLICE, 'TYPE', 'list'),
    );
    cursor = next;
    const bids = found.map((key) => key.slice(pattern.length - 1)).filter((bid) => !seen.has(bid));
    for (const bid of bids) seen.add(bid);
    if (bids.length > 0) yield bids;
  }
}

async function readSlice(redis: Commands, { keys }: Partition, bids: string[]) {
  const scores = await redis.zmscore(keys.batches_index(), ...bids);
  const jobs = await redis.smismember(keys.jobs_index('main'), ...bids.map((bid) => packJob('batch', [bid])));
  const headers = await Promise.all(
    bids.map((bid) => redis.lrange(keys.ruby_batch(bid), 0, HEADER_LENGTH - 1)),
  );
  const lengths = await Promise.all(bids.map((bid) => redis.llen(keys.ruby_batch(bid))));
  return bids.map((_, index) => {
    const [, created = '', attempts = ''] = headers[index] ?? [];
    const isReadable = /^\d+$/.test(created) && /^\d+$/.test(attempts);
    return {
      createdAtMs: isReadable ? Number(created) : undefined,
      events: (lengths[index] ?? 0) - HEADER_LENGTH,
      hasJob: jobs[index] === 1,
      isIndexed: scores[index] !== null,
    };
  });
}

/** Returns a function that reports, every two seconds at most, how many items are checked. */
function reporter(tell: (progress: string) => void, what: string, total: number): (done: number) => void {
  let toldAtMs = clock.monotonicMs();
  return (done) => {
    if (clock.monotonicMs() - toldAtMs < TELL_EVERY_MS) return;
    toldAtMs = clock.monotonicMs();
    tell(`${done} of ${total} ${what} checked`);
  };
}
