import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import { expiringIn, type MemoryLimits, readMemory, staysAbove } from '../store/memory.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import { sumOf } from '../sum.ts';
import { delayedDropOrders, dropDelayed } from './delayed_drop.ts';
import { bytesOf, type DropOrder, fairLosses, firstDropOrders, withoutDropped } from './fair_share.ts';
import type { JobParts } from './job_parts.ts';
import { lastingShortage, measureOldest, measureShortage, type Shortage } from './shortage.ts';

/** Maximum batches and dead letters that one script call drops; 300 take Redis a few milliseconds. */
const MAX_SLICE = 300;
/** Maximum delivery logs (records of a subscriber's past batches) that one script call deletes. */
const MAX_LOGS = 10;

/** Minimum time between two log lines saying that dropping batches would not free enough memory. */
const COMPLAIN_EVERY_MS = 60_000;
/**
 * If dropping batches does not help, the job rests for REST_TIMES times the duration of its measurement. Each refused
 * publish queues the job again, so without rests the measurements would keep Redis busy.
 */
const REST_TIMES = 10;

type Drops = Omit<DropNotice, 'topics'>;

type Dropped = Reply<'autodrop'>['drops'][number];

/**
 * How far the script `autodrop` has counted the events of a large batch by topic, for the drop notice to the
 * subscriber. Counting takes several script calls, and the last of these drops the batch.
 */
type Begun = Omit<Arguments<'autodrop'>, 'orders' | 'deliveryLog'>;

type AutodropParts = Omit<JobParts, 'config' | 'oneAtATime' | 'stopping'>;

type AutodropLimits = MemoryLimits & Pick<Config, 'deliveryLog' | 'dropPolicy'>;

/**
 * The `autodrop` job frees memory when Redis stores more than the bus permits (the high mark). It ends when Redis
 * stores no more than a lower limit (the low mark). It drops records of the delivery log first, then dead letters and
 * batches, and delayed events last. If dropping all of these would not free enough (see shortage.ts), it drops only
 * records of the delivery log, and logs an error.
 *
 * With the policy `fair`, the default, only the clients that hold most lose dead letters and batches. With the policy
 * `oldest`, the oldest dead letters and batches are dropped, whichever clients they belong to. Each partition has its
 * own job, which drops only data of this partition.
 */
export class Autodrop {
  readonly #parts: AutodropParts;
  readonly #limits: AutodropLimits;
  #complainedAtMs = Number.NEGATIVE_INFINITY;
  #restsUntilMs = Number.NEGATIVE_INFINITY;

  constructor(parts: AutodropParts, limits: AutodropLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  async run(signal: AbortSignal): Promise<void> {
    let shortage = await this.#findShortage(signal);
    if (shortage && shortage.targetBytes === undefined) return this.#complain(shortage);
    if (shortage)
      this.#parts.log.warn(
        { node: this.#parts.partition.master.address, ...shortage.memory, policy: this.#limits.dropPolicy },
        'Redis is short of memory; dropping the oldest dead letters and batches',
      );
    while (shortage?.targetBytes !== undefined) {
      const target: number = shortage.targetBytes;
      const any = await this.#dropOnce(target, shortage, signal);
      if (!any || signal.aborted) break;
      // The plan was an estimate, so another measurement shows whether more must be dropped.
      shortage = await this.#findShortage(signal, target);
    }
  }

  /**
   * Drops what one plan says, and logs what was dropped. Returns false if nothing was dropped. The log lines are
   * written after each plan, and not only at the end of the job: if publishers fill Redis as fast as the job drops, the
   * job goes on.
   */
  async #dropOnce(target: number, shortage: Shortage, signal: AbortSignal): Promise<boolean> {
    const { recorder, log } = this.#parts;
    const drops = new Map<string, Drops>();
    const delayed = new Map<string, number>();
    try {
      for await (const dropped of this.#dropDownTo(target, shortage, signal)) {
        const { subscriber, queued, events } = dropped;
        if (queued > 0) recorder.removed(subscriber, queued);
        recorder.autodropped(subscriber, events);
        drops.set(subscriber, join(drops.get(subscriber), dropped));
      }
      for await (const { topic, events } of this.#dropDelayed(target, shortage, signal)) {
        recorder.delayedDropped(topic, events);
        delayed.set(topic, events + (delayed.get(topic) ?? 0));
      }
    } finally {
      for (const [topic, events] of delayed) log.warn({ topic, events }, 'dropped delayed events');
      await this.#report(drops);
    }
    return drops.size + delayed.size > 0;
  }

  /**
   * If Redis stores more than `mark` bytes, drops delivery logs, the longest first, until it stores at most `mark`
   * bytes. Without `mark`, drops logs only if Redis stores more than the high mark, until it stores at most the low
   * mark. Returns the shortage that remains. Returns undefined if none remains, if the job rests (see REST_TIMES), or
   * if `signal` is aborted during the measurement.
   */
  async #findShortage(signal: AbortSignal, mark?: number): Promise<Shortage | undefined> {
    const { partition, partitions } = this.#parts;
    const found = await lastingShortage(partition, this.#limits, signal, mark);
    if (!found) return undefined;
    const target = mark ?? found.lowMark;
    // Deletes as many logs as there are at first. A loop until none is left might never end: deliveries make new logs.
    for (let calls = 1, call = 0; call < calls; call++) {
      if (!(await staysAbove(target, partition, this.#limits, signal))) break;
      const left = await partition.run('drop_logs', { maxLogs: MAX_LOGS });
      if (call === 0) calls += Math.ceil(left / MAX_LOGS);
    }
    const now = await readMemory(partition, this.#limits);
    // `now` may include a large buffer that a connection has just begun to use. The job would then drop too much. So
    // what exceeds the first measurement (`found`) counts only up to the memory limit of Redis: publishers cannot
    // exceed this limit, but buffers can.
    const memory = { ...now, used: Math.min(now.used, Math.max(found.used, now.max)) };
    const beganMs = clock.monotonicMs();
    if (memory.used <= target || beganMs < this.#restsUntilMs) return undefined;
    const shortage = await measureShortage(partitions, partition, memory, signal);
    const endedMs = clock.monotonicMs();
    if (!shortage || shortage.targetBytes !== undefined) return shortage;
    // Nothing that the bus may drop would help, so data of others seems to fill Redis. But short-lived buffers of
    // Redis, such as large replies one after the other, look the same. So the memory is measured once more, for a
    // second.
    const otherDataFull = shortage.droppableBytes + memory.highMark;
    if (!(await lastingShortage(partition, this.#limits, signal, otherDataFull))) return undefined;
    this.#restsUntilMs = endedMs + REST_TIMES * (endedMs - beganMs);
    return shortage;
  }

  /**
   * Drops dead letters and batches by a plan, until Redis stores at most `target` bytes or the plan is done. When the
   * plan is done, drops no more, even if Redis seems to store more than `target`: the measurement may include a large
   * buffer of a connection, which is gone a second later. `run` measures again afterwards.
   */
  async *#dropDownTo(target: number, shortage: Shortage, signal: AbortSignal): AsyncGenerator<Dropped> {
    let plan = await this.#plan(shortage, shortage.memory.used - target, signal);
    let begun: Begun = { begunTopics: [] };
    const { partition } = this.#parts;
    while (plan.length > 0 && (await staysAbove(target, partition, this.#limits, signal))) {
      const { orders, drops, ...rest } = await partition.run('autodrop', {
        ...begun,
        orders: nextOf(plan),
        deliveryLog: this.#limits.deliveryLog,
      });
      begun = rest;
      // `isSpent` means that nothing more can be dropped for this entry of the plan, for example because workers are
      // delivering all batches that are left. Infinity removes the entry from the plan.
      const dropped = orders.map(({ deleted, isSpent }) => (isSpent ? Number.POSITIVE_INFINITY : deleted));
      plan = withoutDropped(plan, dropped);
      yield* drops;
    }
  }

  /**
   * Returns what this partition must drop, so that all partitions in its Redis together free `freeBytes`. With the
   * policy `fair`, one plan covers all these partitions, and this partition carries out the orders for its own
   * subscribers. With `oldest`, each partition drops in proportion to the bytes that it holds.
   */
  async #plan({ holdings, own }: Shortage, freeBytes: number, signal: AbortSignal): Promise<DropOrder[]> {
    const orders: DropOrder[] = [];
    // Counts how many of the oldest dead letters and batches have `bytes` bytes together. Dividing `bytes` by the mean
    // size of a batch would give too few if the oldest batches are small. Autodrop would have to count and delete again
    // and again. For example, if 2,000 small batches are older than 20 large ones, it would do so 16 times, for a
    // second each.
    const order = async (bytes: number, token?: string) => {
      const { batches } = await measureOldest(this.#parts.partition, token, bytes, signal);
      if (batches > 0) orders.push({ token, maxDeleted: batches });
    };
    if (this.#limits.dropPolicy === 'oldest') {
      await order((freeBytes * bytesOf(own.holdings)) / Math.max(1, bytesOf(holdings)));
      return orders;
    }
    const tokens = new Set(own.holdings.map(({ token }) => token));
    for (const { token, bytes } of fairLosses(holdings, freeBytes))
      if (tokens.has(token)) await order(bytes, token);
    return orders;
  }

  /** Drops delayed events, but only if dropping all batches and dead letters would not free enough. */
  #dropDelayed(target: number, { memory, holdings, delayed, own }: Shortage, signal: AbortSignal) {
    const freeBytes = memory.used - target - bytesOf(holdings);
    const topics = new Set(own.delayed.map(({ topic }) => topic));
    const orders =
      freeBytes > 0 ? delayedDropOrders(delayed, freeBytes).filter(({ topic }) => topics.has(topic)) : [];
    return dropDelayed(this.#parts.partition, this.#limits, orders, target, signal);
  }

  async #complain({ memory, droppableBytes, outboxBytes }: Shortage): Promise<void> {
    if (clock.monotonicMs() - this.#complainedAtMs < COMPLAIN_EVERY_MS) return;
    this.#complainedAtMs = clock.monotonicMs();
    const { used, max, highMark } = memory;
    const { partition } = this.#parts;
    const expiringKeys = expiringIn(await partition.command((redis) => redis.info('keyspace')));
    const waiting =
      ' outboxBytes are events for other partitions, which are moved when the Redis there is not away and has room.';
    this.#parts.log.error(
      {
        node: partition.master.address,
        ...{ used, max, highMark, droppableBytes: Math.round(droppableBytes), outboxBytes, expiringKeys },
      },
      `Redis is short of memory, and dropping batches does not help: other data fills it.${outboxBytes > 0 ? waiting : ''} ` +
        'expiringKeys are idempotency keys of 180 bytes each, or Digest nonces of 300 bytes each, which go within seven ' +
        'minutes; if the former are many, shorten ROUTEMASTER_IDEMPOTENCY_WINDOW. Otherwise raise maxmemory, or give the ' +
        'bus a Redis of its own',
    );
  }

  /** Logs what was dropped of each subscriber, under its public name, because a token can be a credential. */
  async #report(drops: ReadonlyMap<string, Drops>): Promise<void> {
    const nameOf = await this.#parts.publicNames.of(drops.keys());
    for (const [token, drop] of drops)
      this.#parts.log.warn({ subscriber: nameOf(token), ...drop }, 'dropped the oldest batches');
  }
}

/**
 * Returns the first half of the remaining plan, at most MAX_SLICE batches and dead letters. The plan is an estimate,
 * and the memory is measured only between two script calls. So one call for the whole plan could drop too much.
 */
function nextOf(plan: readonly DropOrder[]): DropOrder[] {
  return firstDropOrders(
    plan,
    Math.min(MAX_SLICE, Math.ceil(sumOf(plan.map(({ maxDeleted }) => maxDeleted)) / 2)),
  );
}

function join(one: Drops | undefined, { batches, events, fromMs, toMs }: Drops): Drops {
  return {
    batches: batches + (one?.batches ?? 0),
    events: events + (one?.events ?? 0),
    fromMs: Math.min(fromMs, one?.fromMs ?? fromMs),
    toMs: Math.max(toMs, one?.toMs ?? toMs),
  };
}
