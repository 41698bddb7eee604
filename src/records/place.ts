import { z } from 'zod';
import { PLACE_MEANING, PLACE_RULE } from '../routing/paging.ts';

/**
 * The place of a batch or dead letter in a listing, which is sorted by `atMs`, then by id. For a dead letter, `atMs` is
 * when it died. For any other batch, it is when the batch ended or, if it has not ended, when it was opened (ms with
 * three decimals).
 */
export interface Place {
  atMs: number;
  id: string;
}

/** Compares two places for a listing: the newest first, then descending ids, as Redis sorts them. */
export function newestFirst(one: Place, other: Place): number {
  if (one.atMs !== other.atMs) return other.atMs - one.atMs;
  if (one.id === other.id) return 0;
  return one.id < other.id ? 1 : -1;
}

/**
 * Returns the schema of the query parameter `before`, which says where a page begins. `{atMs}-{id}` names a batch or
 * dead letter, and the page begins after it. With another dash at the end (`{atMs}-{id}-`), the page begins with this
 * batch or dead letter. `time` is the pattern of `atMs`. The id may contain dashes.
 */
export function before(time: RegExp) {
  return z
    .string(PLACE_RULE)
    .regex(new RegExp(`^${time.source}-[\\w-]{20}-?$`), PLACE_RULE)
    .transform((text): Place => {
      const dash = text.indexOf('-');
      return { atMs: Number(text.slice(0, dash)), id: text.slice(dash + 1) };
    })
    .optional()
    .describe(PLACE_MEANING);
}
