import { setImmediate as nextTurn } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { atMostEvery, clock } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { isPassing, StorageFull } from '../../errors.ts';
import { uidSeed } from '../../ids.ts';
import { failureOf, type Log, reasonOf } from '../../log.ts';
import type { Recorder } from '../../metrics/recorder.ts';
import { countPublished } from '../../publishing/publication.ts';
import type { RateLimit } from '../../publishing/rate_limit.ts';
import type { StorageGuard } from '../../publishing/storage_guard.ts';
import type { Arguments, Reply } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { sumOf } from '../../sum.ts';
import { finishMove } from './moving_trigger.ts';
import { plan } from './plan.ts';
import { timesOf } from './schedule.ts';
import type { TriggerName } from './stored_trigger.ts';

/** Maximum triggers that one script call fires. 100 take Redis a few ms. */
const FIRED_PER_CALL = 100;
/**
 * When the triggers for one script call have this number of due times together, the call takes no more triggers. A late
 * trigger may have several due times.
 */
const MAX_TIMES = 200;
/** Maximum time for computing due times for one script call. Triggers that are not reached wait for the next call. */
const PLAN_MS = 50;
/** After computing due times for this long, the process lets its other code run. */
const YIELD_EVERY_MS = 5;
/**
 * Minimum time between two log lines about a trigger whose times cannot be computed. Without this minimum, there would
 * be a line each second, because workers try again each second.
 */
const TELL_EVERY_MS = 3_600_000;
const MAX_TOLD = 1000;
/**
 * Minimum time between two log lines about missed due times. Without this minimum, a trigger that can never publish
 * would write a line each second.
 */
const MISSED_EVERY_MS = 10_000;

type DueTrigger = Reply<'due_triggers'>['due'][number];
type Firing = Arguments<'fire_triggers'>['firings'][number];
type Fired = Reply<'fire_triggers'>;

interface DueTriggersParts {
  partition: Partition;
  partitions: Partitions;
  /**
   * The same partitions as `partitions`, for calls whose effect must survive a failover. Each call waits until
   * ROUTEMASTER_MIN_REPLICAS replicas have its writes.
   */
  confirmed: Partitions;
  guard: Pick<StorageGuard, 'check'>;
  limits: Pick<
    Config,
    'maxTopics' | 'maxClientTopics' | 'maxOutboxBytes' | 'publishRate' | 'publishBytes' | 'publishBurstMs'
  >;
  /**
   * The publish rates of clients, which only the control partition stores. Undefined if `partition` is the control
   * partition: its script then counts the published events against the rates. In any other partition, the script cannot
   * do so, and this process does it.
   */
  ratesElsewhere?: Pick<RateLimit, 'mustWait' | 'charge'> | undefined;
  recorder: Pick<Recorder, 'published' | 'added' | 'triggersFired' | 'triggersMissed'>;
  log: Log;
  /** Called if Redis is out of memory. The function must free some memory. */
  onFull: () => void;
}

/**
 * Fires the due triggers of a partition. Each script call takes one trigger of each client, then a second one of each,
 * and so on, so that no client keeps the others waiting. Several processes may fire triggers at the same time, because
 * the script accepts each due time only once.
 */
export class DueTriggers {
  readonly #parts: DueTriggersParts;
  /** Logs how many due times of triggers passed without an event, by reason. */
  readonly #logMissed: (missed: Record<string, number>) => void;
  /**
   * Triggers whose due times cannot be computed, and for which this was logged within the last hour. Each is logged at
   * most once an hour. The keys are the revisions of the triggers' definitions.
   */
  readonly #loggedRevisions = new LRUCache<string, true>({ max: MAX_TOLD, ttl: TELL_EVERY_MS });
  /** Grows with each call of `publish`, so that the script begins with another client each time. */
  #firstClient = 0;

  constructor(parts: DueTriggersParts) {
    this.#parts = parts;
    this.#logMissed = atMostEvery(
      MISSED_EVERY_MS,
      (missed) => parts.log.warn({ missed }, 'triggers missed due times'),
      Number.NEGATIVE_INFINITY,
    );
  }

  /**
   * Fires some of the due triggers. Throws StorageFull while memory is short, and StorageUnavailable if Redis cannot be
   * reached.
   */
  async publish(): Promise<void> {
    const { partition, guard, limits } = this.#parts;
    await guard.check(partition);
    const { maxOutboxBytes } = limits;
    const asked = { limit: FIRED_PER_CALL, firstClient: this.#firstClient++, maxOutboxBytes };
    const { nowMs, due, moving } = await partition.run('due_triggers', asked);
    const firings = await this.#planAll(due, nowMs);
    if (firings.length > 0) this.#count(firings, await this.#fire(firings));
    for (const trigger of moving) this.#finishMove(trigger);
  }

  /**
   * Finishes the move of a trigger to the partition of its topic. The call that began the move may have been
   * interrupted. Does not wait for the result, because that partition may be away.
   */
  #finishMove(trigger: TriggerName): void {
    const { partition, partitions, confirmed } = this.#parts;
    finishMove(trigger, partition, partitions, confirmed).catch((error: unknown) =>
      this.#logUnlessPassing(error, 'a trigger cannot be moved to the partition of its topic', trigger.name),
    );
  }

  #logUnlessPassing(error: unknown, message: string, trigger?: string): void {
    if (isPassing(error)) return;
    this.#parts.log.error({ err: error, ...failureOf(error), trigger }, message);
  }

  async #planAll(due: readonly DueTrigger[], nowMs: number): Promise<Firing[]> {
    const firings: Firing[] = [];
    let times = 0;
    const endMs = clock.monotonicMs() + PLAN_MS;
    let yieldAtMs = clock.monotonicMs() + YIELD_EVERY_MS;
    for (const each of due) {
      const firing = this.#plan(each, nowMs);
      firings.push(firing);
      times += firing.times.length;
      if (times >= MAX_TIMES || clock.monotonicMs() >= endMs) break;
      if (clock.monotonicMs() < yieldAtMs) continue;
      await nextTurn();
      yieldAtMs = clock.monotonicMs() + YIELD_EVERY_MS;
    }
    return firings;
  }

  #plan({ timing, catchUp, ...trigger }: DueTrigger, nowMs: number): Firing {
    try {
      const due = { times: timesOf(JSON.parse(timing)), catchUp, dueMs: trigger.dueAt, nowMs };
      const { nextMs, ...rest } = plan(due);
      return { ...trigger, ...rest, nextAt: nextMs };
    } catch (error) {
      // An error of one trigger must not stop the others. This trigger stays due (`nextAt` is `dueAt`), because another
      // worker may be able to compute its times. That worker may know the time zone, for example.
      this.#tell(trigger, error);
      return { ...trigger, nextAt: trigger.dueAt, times: [], missed: 0, error: 'internal' };
    }
  }

  #tell({ name, revision }: Pick<DueTrigger, 'name' | 'revision'>, error: unknown): void {
    if (this.#loggedRevisions.has(revision)) return;
    this.#loggedRevisions.set(revision, true);
    const about = { trigger: name, reason: reasonOf(error) };
    this.#parts.log.error(about, 'cannot compute when a trigger fires; it stays due and is tried again');
  }

  async #fire(firings: readonly Firing[]): Promise<Fired> {
    const { partition, ratesElsewhere, limits, onFull } = this.#parts;
    const { publishRate, publishBytes, publishBurstMs } = limits;
    const clients = [...new Set(firings.map(({ client }) => client))];
    try {
      return await partition.runPermitted('fire_triggers', {
        ...limits,
        uidSeed: uidSeed(),
        firings,
        burstMs: publishBurstMs,
        eventsPerSecond: ratesElsewhere ? 0 : publishRate,
        bytesPerSecond: ratesElsewhere ? 0 : publishBytes,
        waiting: clients.filter((client) => ratesElsewhere?.mustWait(client)),
      });
    } catch (error) {
      if (error instanceof StorageFull) onFull();
      throw error;
    }
  }

  /**
   * Counts events against clients' rates. Does not wait until they are counted, because the control partition may be
   * away.
   */
  #charge(spent: Fired['spent']): void {
    const message = 'what triggers have fired cannot be counted against the rate of their client';
    for (const { client, events, bytes } of spent)
      this.#parts.ratesElsewhere
        ?.charge(client, events, bytes)
        .catch((error: unknown) => this.#logUnlessPassing(error, message));
  }

  #count(firings: readonly Firing[], { nowMs, outcomes, spent, published }: Fired): void {
    this.#charge(spent);
    const { recorder } = this.#parts;
    const lateMs: number[] = [];
    const missedByReason: Record<string, number> = {};
    for (const [index, { outcome, fired }] of outcomes.entries()) {
      const { times, missed } = firings[index] as Firing;
      if (outcome === 'changed' || outcome === 'left') continue;
      lateMs.push(...times.slice(0, fired).map((time) => nowMs - time));
      const refused = outcome === 'handled' ? 0 : times.length;
      if (missed > 0) missedByReason.late = (missedByReason.late ?? 0) + missed;
      if (refused > 0) missedByReason[outcome] = (missedByReason[outcome] ?? 0) + refused;
    }
    const count = sumOf(Object.values(missedByReason));
    if (count > 0) this.#logMissed(missedByReason);
    recorder.triggersFired(lateMs);
    recorder.triggersMissed(count);
    countPublished(recorder, published);
  }
}
