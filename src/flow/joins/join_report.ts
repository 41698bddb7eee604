import { decode } from '@msgpack/msgpack';
import { z } from 'zod';
import { slicesOf } from '../../chunks.ts';
import { readJoinToken } from '../../ids.ts';
import { NAMED } from '../../routing/schemas.ts';
import type { Keyspace } from '../../store/keys.ts';
import type { Commands, Partition } from '../../store/partition.ts';
import { pairsOf } from '../../store/replies.ts';
import { HELD_BYTES } from '../../subscribing/subscriber_report.ts';
import { JOIN_RULES, type JoinRules } from './join_rules.ts';

const ms = z.int();

/**
 * A page of open join keys ends when its records have this many bytes. A record can have 7 KiB. Without the limit, a
 * page of 1,000 such keys kept a web process busy for 130 ms, during which it served nobody else.
 */
const MAX_PAGE_BYTES = 1_048_576;
const KEYS_PER_READ = 20;

/** Times are in ms since the Unix epoch, by Redis's clock. */
export const JOIN_REPORT = z
  .object({
    name: z.string(),
    client: z.string().describe('Whose join it is.'),
    ...JOIN_RULES.shape,
    created_at: ms,
    updated_at: ms,
    open: z.int().describe('Keys that are not complete.'),
    oldest: ms.nullable().describe('Since when the first of them is open.'),
    completed: z.int().describe('Keys that were ever published.'),
    expired: z.int().describe('Keys that ever expired.'),
    evicted: z.int().describe('Those of them that expired early, because there was no room.'),
    unkeyed: z.int().describe('Events that had no key.'),
    events: z.object({
      queued: z.int().describe('Events that wait to be counted.'),
      oldest: ms.nullable().describe('When the oldest batch of them was opened.'),
    }),
    dead_letters: z.object({ batches: z.int(), events: z.int() }),
    bytes: HELD_BYTES,
    dropped: z.int().describe('Events that were dropped for lack of memory before they were counted.'),
    dropped_at: ms.nullable().describe('When the bus last dropped some of them.'),
  })
  .register(NAMED, { name: 'Join' });
export type JoinReport = z.infer<typeof JOIN_REPORT>;

/**
 * An open key of a join. A key is what events have in common, such as the id of an order. It is open until it is
 * complete or expires. `counts` says, for each source topic, how many events with this key have been counted so far.
 * `events` has the ids of the latest of them.
 */
export const OPEN_KEY = z.object({
  key: z.string(),
  since: ms,
  expires_at: ms,
  counts: z.record(z.string(), z.int()),
  events: z.array(z.string()),
});
export type OpenKey = z.infer<typeof OPEN_KEY>;

export interface KeyPlace {
  sinceMs: number;
  key: string;
}

/** What the hash `joins:keys:{join}` stores for an open join key, in MessagePack. */
type Packed = [sinceMs: number, url: string, ...counts: Count[]];
type Count = [topic: string, events: number, ids: string[], addedUs?: string];

/** Reads a join as the API shows it. Returns undefined if the join does not exist. */
export async function readReport(
  redis: Commands,
  partition: Partition,
  token: string,
): Promise<JoinReport | undefined> {
  const { keys } = partition;
  const openKeys = keys.open_keys_since(token);
  const [
    hash,
    open,
    [, firstOpenedAtMs],
    queued,
    [, oldestCreatedAtUs],
    deadBatches,
    deadEvents,
    [dropped, droppedAtMs],
    [held],
  ] = await Promise.all([
    redis.hgetall(keys.subscriber(token)),
    redis.zcard(openKeys),
    redis.zrange(openKeys, '0', '0', 'WITHSCORES'),
    redis.hget(keys.gauge_events(), token),
    redis.zrange(keys.batches_queued(token), '0', '0', 'WITHSCORES'),
    redis.zcard(keys.dead_letters_of(token)),
    redis.hget(keys.dead_letters_events(), token),
    redis.hmget(keys.dropped(token), 'events', 'last_at'),
    partition.run('holdings', { tokens: [token] }),
  ]);
  const id = readJoinToken(token);
  if (!id || hash.join === undefined) return undefined;
  return {
    ...id,
    ...(JSON.parse(hash.join) as JoinRules),
    created_at: Number(hash.created_at),
    updated_at: Math.floor(Number(hash.subscribed_at) / 1000),
    open,
    oldest: firstOpenedAtMs === undefined ? null : Number(firstOpenedAtMs),
    completed: Number(hash.completed ?? 0),
    expired: Number(hash.expired ?? 0),
    evicted: Number(hash.evicted ?? 0),
    unkeyed: Number(hash.unkeyed ?? 0),
    events: {
      queued: Number(queued ?? 0),
      oldest: oldestCreatedAtUs === undefined ? null : Math.floor(Number(oldestCreatedAtUs) / 1000),
    },
    dead_letters: { batches: deadBatches, events: Number(deadEvents ?? 0) },
    bytes: { queued: held?.bytes ?? 0, dead_letters: held?.deadLetterBytes ?? 0 },
    dropped: Number(dropped ?? 0),
    dropped_at: typeof droppedAtMs === 'string' ? Number(droppedAtMs) : null,
  };
}

/** `next` is the place of the last key of this page, after which the next page begins. Undefined on the last page. */
export interface OpenKeysPage {
  keys: OpenKey[];
  next: KeyPlace | undefined;
}

/**
 * Returns up to `limit` open join keys, sorted by the time of their opening. They follow `after`, the last key of the
 * page before, or are the first ones if `after` is undefined. The page ends early if its records reach MAX_PAGE_BYTES.
 */
export async function readOpenKeys(
  redis: Commands,
  keys: Keyspace,
  { token, sources, within }: { token: string } & Pick<JoinRules, 'sources' | 'within'>,
  limit: number,
  after?: KeyPlace,
): Promise<OpenKeysPage> {
  const places = await following(redis, keys.open_keys_since(token), limit + 1, after);
  const added = await redis.hget(keys.subscriber(token), 'added_at');
  // This is a Map, because a topic may be named `constructor`, and every plain object has a property of this name.
  const addedAt = new Map<string, string>(Object.entries(JSON.parse(added ?? '{}')));
  const shown: OpenKey[] = [];
  let [read, bytes] = [0, 0];
  for (const slice of slicesOf(places.slice(0, limit), KEYS_PER_READ)) {
    const records = await redis.hmgetBuffer(keys.open_keys(token), ...slice.map(({ key }) => key));
    for (const [index, place] of slice.entries()) {
      const record = records[index];
      // The join key may have been completed, or have expired, since `places` was read.
      if (record) shown.push(openKeyOf(place, record, { sources, within }, addedAt));
      bytes += record?.length ?? 0;
    }
    read += slice.length;
    if (bytes >= MAX_PAGE_BYTES) break;
  }
  return { keys: shown, next: read < places.length ? places[read - 1] : undefined };
}

function openKeyOf(
  { key, sinceMs: since }: KeyPlace,
  record: Buffer,
  { sources, within }: Pick<JoinRules, 'sources' | 'within'>,
  addedAt: ReadonlyMap<string, string>,
): OpenKey {
  const [, , ...all] = decode(record) as Packed;
  // Counts only events of the present source topics, and only those that came since their topic was last added to the
  // sources.
  const counted = sources.map(({ topic }) => [topic, ...countOf(all, topic, addedAt.get(topic))] as const);
  return {
    key,
    since,
    expires_at: since + within,
    counts: Object.fromEntries(counted.map(([topic, events]) => [topic, events])),
    events: counted.flatMap(([, , ids]) => ids),
  };
}

function countOf(all: Count[], topic: string, addedUs?: string): [events: number, ids: string[]] {
  const its = all.find(([each, , , added]) => each === topic && added === addedUs);
  const [, events = 0, ids = []] = its ?? [];
  return [events, ids];
}

/**
 * Returns up to `count` open join keys that come after the place `after`, sorted by the time of their opening, then by
 * key.
 */
async function following(
  redis: Commands,
  index: string,
  count: number,
  after?: KeyPlace,
): Promise<KeyPlace[]> {
  if (!after) return placesOf(await redis.zrange(index, '0', String(count - 1), 'WITHSCORES'));
  const [tied, newer] = await Promise.all([
    redis.zrangebyscore(index, after.sinceMs, after.sinceMs),
    redis.zrangebyscore(index, `(${after.sinceMs}`, '+inf', 'WITHSCORES', 'LIMIT', 0, count),
  ]);
  const same = tied
    .filter((key) => comesAfter(key, after.key))
    .map((key) => ({ sinceMs: after.sinceMs, key }));
  return [...same, ...placesOf(newer)].slice(0, count);
}

/** True if `one` comes after `other` when Redis sorts them. Redis compares byte by byte. */
function comesAfter(one: string, other: string): boolean {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) > 0;
}

function placesOf(flat: readonly string[]): KeyPlace[] {
  return pairsOf(flat).map(([key, since]) => ({ key, sinceMs: Number(since) }));
}
