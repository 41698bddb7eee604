import type { PublicNames } from '../../authentication/public_names.ts';
import { SubscriberLines } from '../../delivering/subscriber_lines.ts';
import { ownerOf } from '../../ids.ts';
import type { Log } from '../../log.ts';
import type { StorageGuard } from '../../publishing/storage_guard.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { msOf } from '../../store/replies.ts';
import type { Flushing } from '../../subscribing/topic_marks.ts';
import {
  areFullElsewhere,
  type Join,
  type JoinFigures,
  type JoinLimits,
  joinArguments,
  noteCounted,
  readJoin,
} from './join_store.ts';

/** One call of the function that `joinExpiry` returns closes expired join keys of at most this many joins. */
const MAX_JOINS = 100;
/**
 * Up to this many joins with expired join keys are read, and up to MAX_JOINS of them are chosen. If only MAX_JOINS were
 * read, they could all be joins of one client, and other clients would wait.
 */
const MAX_DUE = 2000;
/** A join that fails is tried again after this time. */
const TRY_AGAIN_MS = 1000;
/** Maximum join keys that one script call closes. Closing 100 takes Redis about a millisecond. */
const MAX_CLOSED = 100;

interface JoinExpiryParts {
  partition: Partition;
  partitions: Partitions;
  outbox: Flushing;
  guard: Pick<StorageGuard, 'check'>;
  recorder: JoinFigures;
  publicNames: PublicNames;
  settings: JoinLimits;
  log: Log;
}

/**
 * Returns a function that closes the expired keys of joins, and publishes an event about each if the join has
 * `on_expiry`. One call closes up to 100 keys of each of up to 100 joins. Several processes may call the function at
 * the same time.
 *
 * If a join fails, it is postponed, and the others are still handled. The first error is thrown at the end: StorageFull
 * if an event must be published while memory is short, or StorageUnavailable if Redis is away.
 */
export function joinExpiry(parts: JoinExpiryParts): (signal: AbortSignal) => Promise<void> {
  const lines = new SubscriberLines(parts);
  return async (signal) => {
    const failures: unknown[] = [];
    const outbox = failingOnce(parts.outbox);
    for (const token of await dueJoins(parts.partition)) {
      if (signal.aborted) return;
      await expire({ ...parts, outbox, lines }, token).catch((error: unknown) => {
        failures.push(error);
        return postpone(parts.partition, token);
      });
    }
    if (failures.length > 0) throw failures[0];
  };
}

/**
 * Returns a Flushing (which empties outboxes) that passes calls on to `inner`. When a call for a partition (`home`) has
 * failed, further calls for this partition throw the same error at once. If a partition hangs, a call fails only after
 * five seconds. Without this function, each join would wait that long.
 */
function failingOnce(inner: Flushing): Flushing {
  const errors = new Map<Partition, unknown>();
  return {
    async flush(home, to) {
      if (errors.has(home)) throw errors.get(home);
      try {
        await inner.flush(home, to);
      } catch (error) {
        errors.set(home, error);
        throw error;
      }
    },
  };
}

/**
 * Returns up to MAX_JOINS joins that have expired join keys. Takes one join of each client in turn, so that no client
 * keeps the others waiting.
 */
async function dueJoins(partition: Partition): Promise<string[]> {
  const due = await partition.command(async (redis, keys) => {
    const nowMs = msOf(await redis.time());
    return redis.zrangebyscore(keys.joins_expiring(), '-inf', nowMs, 'LIMIT', 0, MAX_DUE);
  });
  const joinsOf = [...Map.groupBy(due, ownerOf).values()];
  const rounds = Math.max(0, ...joinsOf.map(({ length }) => length));
  const inTurns = Array.from({ length: rounds }, (_, round) =>
    joinsOf.flatMap((joins) => joins[round] ?? []),
  );
  return inTurns.flat().slice(0, MAX_JOINS);
}

/**
 * Makes a join due again after TRY_AGAIN_MS. If joins that fail stayed due, the next call would choose the same ones
 * again, and so keep others waiting. If another process has handled the join meanwhile, and stored a later time, the
 * option `GT` keeps that time.
 */
async function postpone(partition: Partition, token: string): Promise<void> {
  await partition.command(async (redis, keys) => {
    const dueMs = msOf(await redis.time()) + TRY_AGAIN_MS;
    await redis.zadd(keys.joins_expiring(), 'XX', 'GT', dueMs, token);
  });
}

/**
 * Waits until all events that other partitions have accepted for the join are in its queue, because they may still
 * complete a join key. Returns the time at which the wait began, in ms since the Unix epoch: only join keys that had
 * expired by then may be closed. Returns undefined if the bus has only one partition.
 */
async function moveWhatIsAccepted(
  { partition, partitions, outbox }: JoinExpiryParts,
  { rules }: Join,
): Promise<number | undefined> {
  if (partitions.all.length === 1) return undefined;
  const homes = new Set(rules.sources.map(({ topic }) => partitions.ofTopic(topic)));
  homes.delete(partition);
  const beganMs = msOf(await partition.command((redis) => redis.time()));
  for (const home of homes) await outbox.flush(home, partition);
  return beganMs;
}

async function expire(parts: JoinExpiryParts & { lines: SubscriberLines }, token: string): Promise<void> {
  const { partition, partitions, guard, settings } = parts;
  const join = await readJoin(partition, token);
  if (!join) {
    // The join no longer exists. Its entry in `joins_expiring` is removed, so that it is not due again.
    await partition.run('sweep_joins', { where: 'joins_expiring', names: [token], token: undefined });
    return;
  }
  const { on_expiry } = join.rules;
  if (on_expiry) await guard.check(partition);
  const movedUntilMs = await moveWhatIsAccepted(parts, join);
  const isFull = on_expiry && (await areFullElsewhere(join, [on_expiry.topic], settings, partitions));
  // The topic of `on_expiry` may be in another partition, and the script does not see the outboxes there. If one of
  // them is full, this function passes the script a maximum of 0 bytes for outboxes. Then the script treats all
  // outboxes as full, and closes no keys.
  const limits = isFull ? { ...settings, maxOutboxBytes: 0 } : settings;
  const reply = await partition.runPermitted('expire_keys', {
    ...joinArguments(join, limits, partitions),
    maxClosed: MAX_CLOSED,
    movedUntilMs,
  });
  await noteCounted(parts, join, reply);
}
