import { atMostEvery } from '../clock.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { type Memory, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import { type LivingWorkers, livingWorkers } from '../store/presence.ts';
import type { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { splitCallback } from '../subscribing/callback_url.ts';
import { type FoundBatches, readBatches } from './rehearsal_batches.ts';
import { checkServer } from './schema.ts';
import { slices } from './sweep/walk.ts';

const TELL_EVERY_MS = 2000;

interface RehearsalParts {
  policy: CallbackPolicy;
  limits: MemoryLimits;
  leaseMs: number;
  /** The report names the clients whose tokens have fewer characters than this. */
  minTokenLength: number;
  /** Called every few seconds with a line that describes the progress. */
  tell: (progress: string) => void;
  log: Log;
}

/**
 * What a takeover of a Ruby Routemaster's Redis would find. Subscribers and clients appear by their names, not by their
 * tokens.
 */
export interface Rehearsal extends FoundBatches {
  /** Why this bus cannot use this Redis. Undefined if it can. */
  unfit: string | undefined;
  /** The version of the data layout of this bus in Redis. Undefined if this bus has never used this Redis. */
  layout: string | undefined;
  workers: LivingWorkers;
  memory: Memory;
  subscribers: number;
  topics: number;
  clients: number;
  shortTokens: string[];
  refused: { subscriber: string; callback: string; reason: string }[];
}

/**
 * Reads what a takeover would find in this Redis. Changes nothing. Throws BootError if no bus has stored data in this
 * Redis. Also throws StorageUnavailable or StorageFull.
 */
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
  if (layout === null) await refuseWithoutBus(partition);
  const nameOf = (token: string) => names[token] ?? 'unknown';
  const short = Object.keys(names).filter((token) => token.length < parts.minTokenLength);
  return {
    unfit,
    layout: layout ?? undefined,
    workers: await livingWorkers(partition, parts.leaseMs),
    memory: await readMemory(partition, parts.limits),
    topics,
    clients: Object.keys(names).length,
    shortTokens: short.map(nameOf),
    ...(await readSubscribers(partition, parts, nameOf)),
    ...(await readBatches(partition, (total) => reporter(parts.tell, 'batches', total))),
  };
}

/** Throws BootError if this Redis has no data of a Ruby Routemaster, perhaps because the URL names another Redis. */
async function refuseWithoutBus(partition: Partition): Promise<void> {
  const { keys } = partition;
  const ofRuby = [keys.topics(), keys.subscribers(), keys.api_tokens(), keys.batches_index(), keys.workers()];
  if ((await partition.command((redis) => redis.exists(ofRuby))) > 0) return;
  throw new BootError(
    `There is no bus to take over: database ${partition.redis.options.db ?? 0} of this Redis has none of the keys ` +
      `${ofRuby.join(', ')} of a Ruby Routemaster. Look at the host and the database in the URL of Redis, and at ` +
      'ROUTEMASTER_REDIS_PREFIX. Nothing was changed.',
  );
}

async function readSubscribers(
  partition: Partition,
  { policy, tell }: RehearsalParts,
  nameOf: (token: string) => string,
): Promise<Pick<Rehearsal, 'subscribers' | 'refused'>> {
  const tokens = await partition.command((redis, keys) => redis.smembers(keys.subscribers()));
  const refused: Rehearsal['refused'] = [];
  const progress = reporter(tell, 'callbacks', tokens.length);
  let done = 0;
  for (const slice of slices(tokens)) {
    const callbacks = await partition.command((redis, keys) =>
      Promise.all(slice.map((token) => redis.hget(keys.subscriber(token), 'callback'))),
    );
    // If the Ruby Routemaster refused the first subscription of a client, it lists the client without a callback.
    const reasons = await Promise.all(
      callbacks.map((callback) =>
        callback === null ? undefined : policy.refusal(splitCallback(callback).callback),
      ),
    );
    for (const [index, reason] of reasons.entries()) {
      if (reason === undefined) continue;
      const callback = URL.parse(callbacks[index] ?? '')?.origin ?? 'no URL';
      refused.push({ subscriber: nameOf(slice[index] ?? ''), callback, reason });
    }
    done += slice.length;
    progress(done);
  }
  return { subscribers: tokens.length, refused };
}

function reporter(tell: (progress: string) => void, what: string, total: number): (done: number) => void {
  return atMostEvery(TELL_EVERY_MS, (done) => {
    // `batches:index` may lack batches. So more batches may be found than it has entries (`total`). The total is left
    // out then.
    const all = done <= total ? ` of ${total}` : '';
    tell(`${done}${all} ${what} checked`);
  });
}
