import type { Keyspace } from '../store/keys.ts';
import type { Commands } from '../store/partition.ts';
import { BATCH_HEADER_LENGTH } from './batch.ts';

/** A dead letter as listings show it. Times in ms since the Unix epoch, by Redis's clock. */
export interface DeadLetter {
  /** That of the batch: the `webhook-id` of its deliveries. */
  id: string;
  subscriber: string;
  reason: string;
  created_at: number;
  died_at: number;
  attempts: number;
  event_count: number;
}

/** A letter's place among others. */
export interface Place {
  diedAtMs: number;
  id: string;
}

/** Undefined if there is none. */
export async function readLetter(
  redis: Commands,
  keys: Keyspace,
  id: string,
): Promise<DeadLetter | undefined> {
  const [[subscriber, created, attempts], length, about] = await Promise.all([
    redis.lrange(keys.dead_letter(id), 0, BATCH_HEADER_LENGTH - 1),
    redis.llen(keys.dead_letter(id)),
    redis.hgetall(keys.dead_letter_about(id)),
  ]);
  if (subscriber === undefined || about.died_at === undefined) return undefined;
  return {
    id,
    subscriber,
    reason: about.reason ?? '',
    created_at: Number(created),
    died_at: Number(about.died_at),
    attempts: Number(attempts),
    event_count: length - BATCH_HEADER_LENGTH,
  };
}

/** The first `count` of an index, newest first, those of one millisecond by their ids, backwards. */
export async function newest(redis: Commands, index: string, count: number): Promise<Place[]> {
  return placesOf(await redis.zrevrange(index, 0, count - 1, 'WITHSCORES'));
}

/** Those that follow this place, whether or not there is still a letter. */
export async function following(
  redis: Commands,
  index: string,
  { diedAtMs, id }: Place,
  count: number,
): Promise<Place[]> {
  const [tied, older] = await Promise.all([
    // A few at most: each call of Redis buries one.
    redis.zrevrangebyscore(index, diedAtMs, diedAtMs),
    redis.zrevrangebyscore(index, `(${diedAtMs}`, '-inf', 'WITHSCORES', 'LIMIT', 0, count),
  ]);
  const same = tied.filter((each) => each < id).map((each) => ({ diedAtMs, id: each }));
  return [...same, ...placesOf(older)].slice(0, count);
}

function placesOf(flat: readonly string[]): Place[] {
  const places: Place[] = [];
  for (let i = 0; i < flat.length; i += 2)
    places.push({ id: String(flat[i]), diedAtMs: Number(flat[i + 1]) });
  return places;
}
