import { z } from 'zod';
import { PLACE_MEANING, PLACE_RULE } from '../routing/paging.ts';

/**
 * The place of a batch in a listing, which is sorted by `atMs` (ms with three decimals), then by id. `atMs` is when the
 * batch ended or, for a dead letter, when it died. For a batch that has not ended, it is when the batch was opened.
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
 * Returns the schema of the query parameter `before`, which says where a page begins. With `{atMs}-{id}`, the page
 * begins after this batch or dead letter. With `{atMs}-{id}-`, it begins with this batch or dead letter. `time` is the
 * pattern of `atMs`. The id may contain dashes.
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
