import { z } from 'zod';
import { NAMED } from '../../routing/schemas.ts';
import type { Keyspace } from '../../store/keys.ts';
import type { Commands } from '../../store/partition.ts';
import { pairsOf, replies } from '../../store/replies.ts';
import { BATCH_HEADER_LENGTH } from '../batch.ts';
import type { Place } from '../place.ts';

/** A dead letter as listings show it. `id` is the id of its batch. Times are in ms, by Redis's clock. */
export const DEAD_LETTER = z
  .object({
    id: z.string().describe('The id of its batch, which was the `webhook-id` of its deliveries.'),
    subscriber: z.string(),
    join: z
      .string()
      .optional()
      .describe('If it is a batch of a join: its name. The subscriber is its client.'),
    reason: z.string().describe('Why it is not tried any more: `max_attempts`, `max_age`, and so on.'),
    created_at: z.int().describe('When its batch was opened.'),
    died_at: z.int(),
    attempts: z.int(),
    event_count: z.int(),
  })
  .register(NAMED, { name: 'DeadLetter' });
export type DeadLetter = z.infer<typeof DEAD_LETTER>;

/**
 * Reads the dead letters with these ids by one pipeline, in the order of the ids. Undefined stands for a dead letter
 * that does not exist. With `skip` (see `Partition`), a dead letter whose keys another program has overwritten is
 * undefined too, instead of causing an error.
 */
export async function readLetters(
  redis: Commands,
  keys: Keyspace,
  ids: readonly string[],
  skip?: (error: unknown) => undefined,
): Promise<(DeadLetter | undefined)[]> {
  const values = await replies(
    redis.pipeline(
      ids.flatMap((id) => [
        ['lrange', keys.dead_letter(id), 0, BATCH_HEADER_LENGTH - 1],
        ['llen', keys.dead_letter(id)],
        ['hgetall', keys.dead_letter_about(id)],
      ]),
    ),
    skip,
  );
  return ids.map((id, index) => {
    const [header, length, about] = values.slice(3 * index, 3 * index + 3) as [
      string[] | undefined,
      number,
      Record<string, string> | undefined,
    ];
    return header && about && letterOf(id, header, length, about);
  });
}

function letterOf(
  id: string,
  [subscriber, created, attempts]: readonly string[],
  length: number,
  about: Record<string, string>,
): DeadLetter | undefined {
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

/** The period in which dead letters died. Both ends are included. */
export interface Period {
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/**
 * Returns the places (time of death and id) of up to `count` dead letters in the sorted set `index`: the newest first,
 * then descending ids. `after` is the last place of the previous page: only places behind it are returned, even if its
 * dead letter has been deleted. With `after`, `untilMs` is ignored.
 */
export async function placesIn(
  redis: Commands,
  index: string,
  count: number,
  { sinceMs, untilMs }: Period = {},
  after?: Place,
): Promise<Place[]> {
  const from = after ? `(${after.atMs}` : (untilMs ?? '+inf');
  const [tied, older] = await Promise.all([
    // Other dead letters may have died in the same millisecond as the one at `after`, and ZREVRANGEBYSCORE cannot begin
    // at an id. So all dead letters of this millisecond are read (a script call makes about 300 at most), and those
    // behind `after` are picked.
    after ? redis.zrevrangebyscore(index, after.atMs, after.atMs) : [],
    redis.zrevrangebyscore(index, from, sinceMs ?? '-inf', 'WITHSCORES', 'LIMIT', 0, count),
  ]);
  const same = tied.flatMap((id) => (after && id < after.id ? { ...after, id } : []));
  return [...same, ...pairsOf(older).map(([id, diedAt]) => ({ id, atMs: Number(diedAt) }))].slice(0, count);
}
