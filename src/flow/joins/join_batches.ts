import { LRUCache } from 'lru-cache';
import type { PublicNames } from '../../authentication/public_names.ts';
import type { Batch } from '../../delivering/batch.ts';
import type { Grant } from '../../delivering/grant.ts';
import { eventJson } from '../../delivering/legacy_event.ts';
import { type QueueSettings, SLOW_MS } from '../../delivering/queue.ts';
import { DONE, GIVEN_BACK, type Settlement, triedAgainIn } from '../../delivering/settlement.ts';
import { SubscriberLines } from '../../delivering/subscriber_lines.ts';
import { takenRecord } from '../../delivering/taken_record.ts';
import { StorageFull } from '../../errors.ts';
import { ownerOf } from '../../ids.ts';
import { parseOwnJson } from '../../json.ts';
import type { Log } from '../../log.ts';
import type { Recorder } from '../../metrics/recorder.ts';
import type { StorageGuard } from '../../publishing/storage_guard.ts';
import { clientBytes } from '../../store/client_quota.ts';
import type { Reply } from '../../store/contracts.ts';
import type { Partitions } from '../../store/partitions.ts';
import { keyOf } from './join_key.ts';
import {
  areFullElsewhere,
  claimTopics,
  type Join,
  type JoinFigures,
  type JoinLimits,
  joinArguments,
  noteCounted,
  outletsOf,
  readJoin,
  refusalText,
} from './join_store.ts';

/** Maximum events that one script call counts for a join. More would block Redis for too long. */
const MAX_COUNTED_PER_CALL = 50;
const MAX_JOINS_KNOWN = 1000;

/**
 * The delivery log says this about a batch that a join has accepted. The join gets its batches without HTTP requests,
 * so there is no status and no duration.
 */
const TAKEN = { status: null, durationMs: 0 };

const UNTIL_THERE_IS_ROOM = triedAgainIn(1000);

interface JoinBatchesParts {
  partitions: Partitions;
  guard: Pick<StorageGuard, 'check' | 'maxBytes'>;
  recorder: JoinFigures & Pick<Recorder, 'removed'>;
  publicNames: PublicNames;
  settings: QueueSettings & JoinLimits;
  log: Log;
}

type Work = Grant & { batch: Batch };

interface StoredEvent {
  id: string;
  topic: string;
  url: string;
  data?: unknown;
}

type Counted = Reply<'join_events'>;

/**
 * Does the work of joins. A join publishes an event when all events that it expects for a key, such as an order number,
 * have come (the key is complete). To find this out, this class counts the events in the batches of joins, by key.
 */
export class JoinBatches {
  readonly #parts: JoinBatchesParts;
  readonly #lines: SubscriberLines;
  readonly #known = new LRUCache<string, Join>({ max: MAX_JOINS_KNOWN });

  constructor(parts: JoinBatchesParts) {
    this.#parts = parts;
    this.#lines = new SubscriberLines(parts);
  }

  /**
   * Counts the events of a batch for its join, in several script calls if there are many. Each call removes from the
   * batch the events that it has counted, and the last call ends the job. If Redis is short of memory, or an outbox for
   * the join's events is full, the batch is tried again later. Throws RangeError if an event cannot be decoded, and
   * StorageUnavailable if Redis is away.
   */
  async countBatch(work: Work, signal: AbortSignal): Promise<Settlement> {
    try {
      return await this.#countBatch(work, signal);
    } catch (error) {
      if (error instanceof StorageFull) return UNTIL_THERE_IS_ROOM;
      throw error;
    }
  }

  async #countBatch(work: Work, signal: AbortSignal): Promise<Settlement> {
    const { batch } = work;
    const { guard, partitions, settings } = this.#parts;
    let events = eventsIn(batch.pieces);
    let join = await this.#find(batch.token, work.subscriber?.subscribedAt);
    while (join) {
      if (await this.#isOfEarlier(batch, join)) return DONE;
      if (signal.aborted) return GIVEN_BACK;
      await guard.check(partitions.ofSubscriber(batch.token));
      const refusal = await this.#refusalElsewhere(join);
      if (refusal) return this.#refused(work, join, refusal);
      if (await areFullElsewhere(join, outletsOf(join.rules), settings, partitions))
        return UNTIL_THERE_IS_ROOM;
      const reply = await this.#count(work, join, events);
      if (reply.outcome === 'outbox_full') return UNTIL_THERE_IS_ROOM;
      if (reply.outcome === 'not_held') return { end: 'settled', held: false };
      if (reply.outcome === 'refused') return this.#refused(work, join, reply.reason);
      if (reply.outcome === 'changed') join = await this.#find(batch.token);
      else await this.#note(join, batch, reply);
      if (reply.isDone) return { end: 'settled', held: true };
      events = events.slice(reply.removed);
    }
    return DONE;
  }

  /** True if the batch was queued for a removed join of the same name. Its events must not count for the new join. */
  async #isOfEarlier({ token, bid }: Batch, { countsAfter }: Join): Promise<boolean> {
    if (countsAfter === 0) return false;
    const partition = this.#parts.partitions.ofSubscriber(token);
    const score = await partition.command((redis, keys) => redis.zscore(keys.batches_queued(token), bid));
    return score !== null && Number(score) <= countsAfter;
  }

  async #find(token: string, version?: string): Promise<Join | undefined> {
    const known = this.#known.get(token);
    if (known && known.version === version) return known;
    const join = await readJoin(this.#parts.partitions.ofSubscriber(token), token);
    if (join) this.#known.set(token, join);
    return join;
  }

  /**
   * Counts the next events under their join keys. A key is complete when each source topic has had as many events with
   * this key as the rules of the join ask for. Then the join publishes an event.
   */
  #count(work: Work, join: Join, events: readonly StoredEvent[]): Promise<Counted> {
    const { guard, partitions, settings } = this.#parts;
    const { worker, packed, lease, batch } = work;
    const { deliveryLog, maxJoinKeys, maxJoinBytes } = settings;
    const slice = events.slice(0, MAX_COUNTED_PER_CALL);
    return partitions.ofSubscriber(batch.token).runPermitted('join_events', {
      ...settings,
      ...joinArguments(join, settings, partitions),
      q: 'main',
      worker,
      job: packed,
      lease,
      slowMs: SLOW_MS,
      record: deliveryLog > 0 ? takenRecord(batch, { ...TAKEN, atMs: work.atMs }) : undefined,
      bid: batch.bid,
      createdMs: batch.createdAtMs,
      maxKeys: maxJoinKeys,
      maxBytes: Math.min(maxJoinBytes, clientBytes(guard.maxBytes)),
      batchEvents: events.length,
      events: slice.map((event) => argumentsOf(event, join)),
    });
  }

  /**
   * A join may publish only to a topic that its client owns. If the topic is in another partition than the join, makes
   * the client the owner of the topic, or returns the reason why that is refused. If the topic is in the join's own
   * partition, the script `join_events` makes the client the owner, and nothing is done here.
   */
  async #refusalElsewhere({ token, rules }: Join): Promise<Counted['reason']> {
    const { partitions, settings } = this.#parts;
    const { topic } = rules.then;
    if (partitions.ofTopic(topic) === partitions.ofSubscriber(token)) return undefined;
    return (await claimTopics(partitions, ownerOf(token), [topic], settings))?.outcome;
  }

  /**
   * Makes a batch a dead letter, because its join is not permitted to publish. The client of the join can retry the
   * dead letter later.
   */
  async #refused(
    { batch, atMs }: Work,
    { token, rules }: Join,
    reason: Counted['reason'] = 'claimed_by_other',
  ): Promise<Settlement> {
    const text = refusalText(reason, rules.then.topic);
    const join = await this.#parts.publicNames.forLog(token);
    const line = { join, bid: batch.bid, reason: text, death: 'join_refused' };
    const onEnd = (isDropped: boolean) => {
      const message = 'a join may not publish; its batch is a dead letter now';
      if (!isDropped) this.#lines.write(token, 'error', line, message);
    };
    const attempt = { atMs, durationMs: 0, reason: text };
    return { end: 'dead', burial: { reason: 'join_refused', attempt, damage: 0, throttleMs: 0, onEnd } };
  }

  async #note(join: Join, { bid }: Batch, reply: Counted): Promise<void> {
    const { recorder, log } = this.#parts;
    const { removed, completed, expired, evicted, unkeyed } = reply;
    if (removed > 0) recorder.removed(join.token, removed);
    log.debug({ bid, events: removed, completed, expired, evicted, unkeyed }, 'counted a batch for a join');
    await noteCounted({ ...this.#parts, lines: this.#lines }, join, reply);
  }
}

function eventsIn(pieces: readonly Buffer[]): StoredEvent[] {
  return pieces.flatMap((piece) => parseOwnJson(`[${eventJson(piece)}]`) as StoredEvent[]);
}

function argumentsOf({ topic, id, url, data }: StoredEvent, { rules }: Join) {
  return { topic, key: keyOf({ url, data }, rules.by), id, url };
}
