import { slicesOf } from '../../chunks.ts';
import { BusError } from '../../errors.ts';
import { ownerOf } from '../../ids.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { replies } from '../../store/replies.ts';
import type { AttemptReport } from '../attempt_report.ts';
import { eventSlices } from '../event_slices.ts';
import { newestFirst, type Place } from '../place.ts';
import type { DeathReason } from '../settlement.ts';
import { type DeadLetter, type Period, placesIn, readLetters } from './dead_letter.ts';

/**
 * Maximum dead letters that one pipeline reads. Other requests are served between two pipelines, so that a request for
 * a long list does not hold them up.
 */
const READ_SLICE = 20;

/**
 * Maximum dead letters that one request searches for those that died for a given reason. Without a limit, a request for
 * a rare reason would read all dead letters.
 */
const MAX_SEARCHED = 500;

interface LetterFilter extends Period {
  reason?: DeathReason | undefined;
}

interface FoundPlace {
  partition: Partition;
  place: Place;
}

/**
 * Lists up to `limit` dead letters, newest first, of `subscribers` or of all. Begins behind the place `after`, which is
 * the `next` of the previous page. The last page has no `next`.
 *
 * With `filter.reason`, lists only letters that died for this reason. One call searches no more than MAX_SEARCHED
 * letters (or `limit`, if it is higher), so it may find fewer than `limit` although there are more. `looked` is the
 * number of letters that were searched.
 */
export async function listDeadLetters(
  partitions: Partitions,
  subscribers: readonly string[] | undefined,
  limit: number,
  after?: Place,
  filter: LetterFilter = {},
) {
  const max = filter.reason === undefined ? limit : Math.max(limit, MAX_SEARCHED);
  const found = await placesOf(partitions, subscribers, max + 1, after, filter);
  const seen = found.slice(0, max);
  const matching = filter.reason === undefined ? seen : await ofReason(seen, filter.reason);
  const page = matching.slice(0, limit);
  const letters = await inSlices(page, (partition, ids) =>
    partition.command((redis, keys) => readLetters(redis, keys, ids, partition.skip)),
  );
  const end = matching.length > limit ? page : found.length > max ? seen : [];
  const next = end.at(-1)?.place;
  return {
    // An undefined letter was deleted after its place was read, or it cannot be read.
    letters: letters.filter((letter) => letter !== undefined),
    looked: filter.reason === undefined ? 0 : seen.length,
    ...(next && { next }),
  };
}

async function placesOf(
  partitions: Partitions,
  subscribers: readonly string[] | undefined,
  max: number,
  after: Place | undefined,
  period: Period,
): Promise<FoundPlace[]> {
  const indexes = (subscribers ?? [undefined]).flatMap((token) =>
    partitions.holding(token).map((partition) => [partition, token] as const),
  );
  const found = await Promise.all(
    indexes.map(([partition, token]) =>
      partition.command(async (redis, keys) => {
        const index = token === undefined ? keys.dead_letters_index() : keys.dead_letters_of(token);
        const places = await placesIn(redis, index, max, period, after);
        return places.map((place) => ({ partition, place }));
      }),
    ),
  );
  return found.flat().sort((one, other) => newestFirst(one.place, other.place));
}

/**
 * Returns one dead letter with the history of its attempts, or undefined if it does not exist. With `client`, finds
 * only the dead letters of this client and its joins.
 */
export async function findDeadLetter(
  partitions: Partitions,
  id: string,
  client?: string,
): Promise<(DeadLetter & { history: AttemptReport[] }) | undefined> {
  for (const partition of partitions.holding(client)) {
    const [[letter], history] = await partition.command((redis, keys) =>
      Promise.all([readLetters(redis, keys, [id]), redis.lrange(keys.attempts(id), 0, -1)]),
    );
    if (letter && (client === undefined || client === ownerOf(letter.subscriber)))
      return { ...letter, history: history.map((attempt) => JSON.parse(attempt)) };
  }
  return undefined;
}

/**
 * Yields the events of a dead letter, as `eventSlices` does. Throws dead_letter_not_found if it is deleted meanwhile.
 */
export async function* eventsOfLetter(
  partitions: Partitions,
  { id, subscriber, event_count }: DeadLetter,
): AsyncGenerator<string> {
  const partition = partitions.ofSubscriber(subscriber);
  let left = event_count;
  for await (const slice of eventSlices(partition, (keys) => keys.dead_letter(id), event_count)) {
    left -= slice.length;
    yield* slice;
  }
  if (left > 0)
    throw new BusError('dead_letter_not_found', 'the dead letter was taken away while it was read');
}

/** Yields a dead letter with its events as JSON, in pieces, because the events can be hundreds of megabytes. */
export async function* wholeLetterJson(
  letter: DeadLetter,
  events: AsyncIterable<string>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(letter).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const event of events) {
    yield separator + event;
    separator = ',';
  }
  yield ']}';
}

/** Calls `read` with up to READ_SLICE ids of these places at a time. Resolves with the results in the given order. */
async function inSlices<T>(
  places: readonly FoundPlace[],
  read: (partition: Partition, ids: string[]) => Promise<T[]>,
): Promise<T[]> {
  const found: T[] = [];
  for (const slice of slicesOf(places, READ_SLICE)) {
    const byId = new Map<string, T>();
    for (const [partition, some] of Map.groupBy(slice, (each) => each.partition)) {
      const ids = some.map(({ place }) => place.id);
      for (const [index, one] of (await read(partition, ids)).entries()) byId.set(ids[index] as string, one);
    }
    found.push(...slice.map(({ place }) => byId.get(place.id) as T));
  }
  return found;
}

async function ofReason(found: readonly FoundPlace[], wanted: DeathReason): Promise<FoundPlace[]> {
  const reasons = await inSlices(found, (partition, ids) =>
    partition.command((redis, keys) =>
      replies(
        redis.pipeline(ids.map((id) => ['hget', keys.dead_letter_about(id), 'reason'])),
        partition.skip,
      ),
    ),
  );
  return found.filter((_, index) => reasons[index] === wanted);
}
