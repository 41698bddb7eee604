import { BATCH_HEADER_LENGTH } from '../delivering/batch.ts';
import { packJob } from '../store/job.ts';
import type { Commands, Partition } from '../store/partition.ts';

const KEYS_PER_SCAN = 300;

/**
 * The batches that a takeover of a Ruby Routemaster's Redis would find: `count` batches with `events` events in all.
 * - `jobless` batches have no job that would deliver them.
 * - `unindexed` batches are missing in `batches:index`.
 * - `unreadable` batches do not begin with a subscriber, a time and a number of attempts.
 */
export interface FoundBatches {
  batches: { count: number; events: number; jobless: number; unindexed: number; unreadable: number };
  /** When the oldest batch was created, in ms since the Unix epoch. Undefined if there is no batch. */
  oldestAtMs: number | undefined;
  /** Number of batches that an interrupted takeover has already converted. `batches` counts only the others. */
  converted: number;
  /** Number of entries of `batches:index` whose batches no longer exist. */
  lost: number;
}

/**
 * Reads the batches that a takeover would convert. `progressOf` gets the number of entries in `batches:index`. It
 * returns a function that is called now and then with the number of batches read so far.
 */
export async function readBatches(
  partition: Partition,
  progressOf: (total: number) => (done: number) => void,
): Promise<FoundBatches> {
  const { keys } = partition;
  const batches = { count: 0, events: 0, jobless: 0, unindexed: 0, unreadable: 0 };
  let oldestAtMs = Number.POSITIVE_INFINITY;
  const entries = await partition.command((redis) => redis.zcard(keys.batches_index()));
  const progress = progressOf(entries);
  for await (const bids of batchesAt(partition, keys.ruby_batch('*'))) {
    for (const each of await partition.command((redis) => readSlice(redis, partition, bids))) {
      batches.count++;
      batches.jobless += Number(!each.hasJob);
      batches.unindexed += Number(!each.isIndexed);
      batches.unreadable += Number(each.createdAtMs === undefined);
      if (each.createdAtMs === undefined) continue;
      batches.events += each.events;
      oldestAtMs = Math.min(oldestAtMs, each.createdAtMs);
    }
    progress(batches.count);
  }
  const others = Math.max(0, entries - (batches.count - batches.unindexed));
  const converted = others > 0 ? await countConverted(partition) : 0;
  return {
    batches,
    oldestAtMs: Number.isFinite(oldestAtMs) ? oldestAtMs : undefined,
    converted,
    lost: Math.max(0, others - converted),
  };
}

async function countConverted(partition: Partition): Promise<number> {
  let converted = 0;
  for await (const bids of batchesAt(partition, partition.keys.batch('*'))) {
    const scores = await partition.command((redis, keys) => redis.zmscore(keys.batches_index(), ...bids));
    converted += scores.filter((score) => score !== null).length;
  }
  return converted;
}

/** Yields, in groups, the UIDs of all batches whose keys match `pattern`, which ends with `*`. No UID comes twice. */
async function* batchesAt(partition: Partition, pattern: string): AsyncGenerator<string[]> {
  const seen = new Set<string>();
  const scan = partition.scan((redis, _, cursor) =>
    redis.scan(cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_SCAN, 'TYPE', 'list'),
  );
  for await (const found of scan) {
    const bids = found.map((key) => key.slice(pattern.length - 1)).filter((bid) => !seen.has(bid));
    for (const bid of bids) seen.add(bid);
    if (bids.length > 0) yield bids;
  }
}

async function readSlice(redis: Commands, { keys }: Partition, bids: string[]) {
  const scores = await redis.zmscore(keys.batches_index(), ...bids);
  const jobs = await redis.smismember(keys.jobs_index('main'), ...bids.map((bid) => packJob('batch', [bid])));
  const headers = await Promise.all(
    bids.map((bid) => redis.lrange(keys.ruby_batch(bid), 0, BATCH_HEADER_LENGTH - 1)),
  );
  const lengths = await Promise.all(bids.map((bid) => redis.llen(keys.ruby_batch(bid))));
  return bids.map((_, index) => {
    const [, created = '', attempts = ''] = headers[index] ?? [];
    const isReadable = /^\d+$/.test(created) && /^\d+$/.test(attempts);
    return {
      createdAtMs: isReadable ? Number(created) : undefined,
      events: (lengths[index] ?? 0) - BATCH_HEADER_LENGTH,
      hasJob: jobs[index] === 1,
      isIndexed: scores[index] !== null,
    };
  });
}
