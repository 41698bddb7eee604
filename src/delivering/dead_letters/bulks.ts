import { uid } from '../../ids.ts';
import { type Job, packJob } from '../../store/job.ts';
import type { Keyspace } from '../../store/keys.ts';
import type { Commands, Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import type { DeathReason } from '../settlement.ts';

/**
 * The name of the jobs of bulk operations, which retry or purge many dead letters (see Bulks). Such a job has three
 * arguments: who began the operation (a client's token, or ROOT_OWNER), the id of the operation, and `count` (count the
 * letters) or `run` (retry or purge them).
 */
export const BULK_JOB = 'bulk';

/**
 * Returns a job without the token of a client, which can be a credential, for the log and the audit. Only the jobs of
 * bulk operations have a token among their arguments.
 */
export function withoutToken(job: Job | undefined): Job | undefined {
  return job?.name === BULK_JOB ? { ...job, args: job.args.slice(1) } : job;
}

/**
 * The states of a bulk operation on dead letters, which is made of one part in each partition that may have such
 * letters. Each part has a state, and `bulkState` derives the state of the whole. A `counted` operation waits until the
 * client (or root) that began it confirms or cancels it.
 */
const BULK_STATES = ['counting', 'counted', 'running', 'cancelled', 'ended'] as const;
type BulkState = (typeof BULK_STATES)[number];

/**
 * The owner of root's bulk operation, which all holders of the root key share. A client's token is the owner of its
 * operation. No token has a colon, so no client is mistaken for root.
 */
export const ROOT_OWNER = ':root';

interface BulkFilter {
  /** The tokens of the subscribers whose dead letters are retried or purged. Undefined means all subscribers. */
  tokens: readonly string[] | undefined;
  reason?: DeathReason | undefined;
  /**
   * Only dead letters that died at `fromMs` or later, and at `untilMs` or earlier, are retried or purged. An undefined
   * time is no limit.
   */
  fromMs?: number | undefined;
  untilMs?: number | undefined;
}

export interface Bulk extends BulkFilter {
  id: string;
  act: 'retry' | 'purge';
  state: BulkState;
  matched: number;
  done: number;
  /** Number of dead letters that stayed, because they could not be read or their subscriber has left. */
  left: number;
  beganAtMs: number;
  endedAtMs: number | undefined;
}

/**
 * Begins, finds and ends bulk operations: retries or purges of all dead letters that match a filter. Each client has at
 * most one at a time, and all holders of the root key together have one. In each partition that may have matching dead
 * letters, a job does the work. All dead letters of a client and its joins are in one partition, so a client's
 * operation asks no other partition.
 */
export class Bulks {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Begins a bulk operation for `owner` (a client's token, or ROOT_OWNER). At first it only counts the dead letters
   * that match the filter. Returns false if the owner has an operation in the state `running`. Replaces an operation in
   * any other state.
   *
   * If the operation cannot begin in one partition, cancels it in all, and returns false or throws the error. Otherwise
   * it would retry or purge only a part of the dead letters.
   */
  async begin(owner: string, act: Bulk['act'], filter: BulkFilter): Promise<boolean> {
    if ((await this.#parts(owner)).some(({ state }) => state === 'running')) return false;
    const id = uid();
    const { tokens, ...rest } = filter;
    const parts = tokens
      ? [...Map.groupBy(tokens, (token) => this.#partitions.ofSubscriber(token))]
      : this.#partitions.all.map((each) => [each, [null]] as const);
    const begun = parts.map(([partition, own]) =>
      partition.run('begin_bulk', {
        ...rest,
        owner,
        id,
        act,
        queues: JSON.stringify(own),
        listLength: own.length,
        job: packJob(BULK_JOB, [owner, id, 'count']),
      }),
    );
    const outcomes = await Promise.allSettled(begun);
    if (outcomes.every((each) => each.status === 'fulfilled' && each.value)) return true;
    await Promise.allSettled(parts.map(([partition]) => partition.run('cancel_bulk', { owner, id })));
    await Promise.all(begun); // throws the error, if there is one
    return false;
  }

  /**
   * Returns the newest bulk operation of `owner` (a client's token, or ROOT_OWNER). Returns undefined if there is none,
   * or if all its parts have expired. A part that has ended expires a day later, even if another part still waits for
   * memory. The counts of the expired part are then missing in the result.
   */
  async find(owner: string): Promise<Bulk | undefined> {
    const parts = await this.#parts(owner);
    const [part] = parts;
    if (!part) return undefined;
    // An operation for all subscribers began in all partitions, so a missing part is noticed. If the operation is only
    // for some subscribers, Redis does not store in which partitions it began, so a missing part is not noticed.
    const known = part.tokens ? parts.length : this.#partitions.all.length;
    return { ...parts.reduce(together), state: bulkState(parts, parts.length < known) };
  }

  /**
   * Returns the parts of the newest bulk operation of `owner` (a client's token, or ROOT_OWNER): one for each partition
   * in which the operation began.
   */
  async #parts(owner: string): Promise<Bulk[]> {
    const read = (redis: Commands, keys: Keyspace) => redis.hgetall(keys.bulk(owner));
    const records = await this.#partitions.ask(read, this.#partitionsOf(owner));
    const parts = records.flatMap((record) => readBulk(record) ?? []);
    const [newest] = parts.toSorted((one, other) => other.beganAtMs - one.beganAtMs);
    return parts.filter(({ id }) => id === newest?.id);
  }

  /**
   * Begins the retries or purges of a bulk operation that has counted its dead letters. Returns false if the operation
   * is not in the state `counted`, or if `owner` (a client's token, or ROOT_OWNER) has begun another operation since.
   */
  async confirm(owner: string, id: string): Promise<boolean> {
    const newest = await this.find(owner);
    if (newest?.id !== id || newest.state !== 'counted') return false;
    const job = packJob(BULK_JOB, [owner, id, 'run']);
    return this.#inAll(owner, (partition) => partition.run('confirm_bulk', { owner, id, job }));
  }

  /**
   * Stops a bulk operation. Dead letters that were already retried or purged are not restored. Returns false if the
   * operation has ended or is already cancelled, or if `owner` (a client's token, or ROOT_OWNER) has begun another
   * operation since.
   */
  cancel(owner: string, id: string): Promise<boolean> {
    return this.#inAll(owner, (partition) => partition.run('cancel_bulk', { owner, id }));
  }

  async #inAll(owner: string, change: (partition: Partition) => Promise<boolean>): Promise<boolean> {
    return (await Promise.all(this.#partitionsOf(owner).map(change))).some(Boolean);
  }

  /**
   * Returns the partitions that may have a part of the owner's operation. For ROOT_OWNER these are all partitions. For
   * a client it is the one partition that has the dead letters of the client and of its joins.
   */
  #partitionsOf(owner: string): readonly Partition[] {
    return this.#partitions.holding(owner === ROOT_OWNER ? undefined : owner);
  }
}

/**
 * Reads a partition's part of a bulk operation from `record`: the fields of the hash that the partition stores. Returns
 * undefined if the partition stores none.
 */
export function readBulk(record: Record<string, string>): Bulk | undefined {
  const { id, act, state, queues, reason } = record;
  if (id === undefined || queues === undefined) return undefined;
  const tokens = JSON.parse(queues) as (string | null)[];
  const time = (ms: string | undefined) => (ms === undefined ? undefined : Number(ms));
  return {
    id,
    act: act as Bulk['act'],
    state: state as BulkState,
    tokens: tokens[0] === null ? undefined : (tokens as string[]),
    reason: reason as DeathReason | undefined,
    fromMs: time(record.from_ms),
    untilMs: time(record.until_ms),
    matched: Number(record.matched),
    done: Number(record.done),
    left: Number(record.left),
    beganAtMs: Number(record.began_ms),
    endedAtMs: time(record.ended_ms),
  };
}

/**
 * Returns the state of a bulk operation: the first of BULK_STATES that a part has. So it is `counted` until all parts
 * run, and can be confirmed again if a confirmation has not reached all partitions.
 *
 * If no part is running, there are two cases in which the operation is `cancelled`:
 * - A part is `cancelled`. The cancellation may not have reached the other parts yet.
 * - A part is missing, and no part has ended. Another operation that began at the same moment has replaced the missing
 *   part. If this operation were confirmed, it would silently leave out dead letters. But if a part has ended, the
 *   missing parts have ended too, and have expired.
 */
function bulkState(parts: readonly Bulk[], isPartMissing: boolean): BulkState {
  const has = (wanted: BulkState) => parts.some(({ state }) => state === wanted);
  const isCancelled = has('cancelled') || (isPartMissing && !has('ended'));
  return isCancelled && !has('running') ? 'cancelled' : (BULK_STATES.find(has) as BulkState);
}

function together(one: Bulk, other: Bulk): Bulk {
  return {
    ...one,
    tokens: one.tokens && other.tokens ? [...one.tokens, ...other.tokens] : undefined,
    matched: one.matched + other.matched,
    done: one.done + other.done,
    left: one.left + other.left,
    endedAtMs: Math.max(one.endedAtMs ?? 0, other.endedAtMs ?? 0) || undefined,
  };
}
