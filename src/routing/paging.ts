import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Caller } from './caller.ts';
import { ENTRIES_PER_CALL, firstIndex, pickPage, type Rank } from './picking.ts';
import { badParameter, parameters } from './query.ts';
import { countUpTo } from './schemas.ts';

const MAX_LISTED = 1000;
export const DEFAULT_LISTED = 100;

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

export const PLACE_MEANING = 'Where the page begins: what the `Link` of the page before gives.';
export const PLACE_RULE = 'must be what the Link header of the page before gives';

export const LIMIT = countUpTo(MAX_LISTED).optional().describe('Maximum entries of a page.');

const TIME_RULE = 'must be a time in ms since 1970';

/** The schema of a time (`since` or `until`) by which a query limits a listing. */
export const TIME = z
  .string(TIME_RULE)
  .regex(/^\d{1,15}$/, TIME_RULE)
  .transform(Number)
  .pipe(z.int().min(0))
  .optional();

/**
 * The schema of a query parameter that says where a page begins. Callers copy its value from the `Link` header of the
 * previous page. The value is encrypted, because it may be a secret token.
 */
export const PLACE = z
  .string(PLACE_RULE)
  .regex(/^[\w-]{39,}$/, PLACE_RULE)
  .describe(PLACE_MEANING);

export const PAGE_FIELDS = {
  limit: LIMIT,
  after: PLACE.optional(),
};

export const PAGE_QUERY = parameters(PAGE_FIELDS);

export interface PagedCall {
  caller: Caller;
  path: string;
  query: z.infer<typeof PAGE_QUERY.schema>;
}

interface RankedCall {
  path: string;
  query: Record<string, string | number | undefined> & {
    limit?: number | undefined;
    after?: string | undefined;
  };
}

/** Returns the header `Link` that leads to the next page. */
export function nextLink(path: string, query: Record<string, string | number | undefined>): { Link: string } {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) asked.set(name, String(value));
  return { Link: `<${path}?${asked}>; rel="next"` };
}

interface Cutting<T> {
  isSorted?: boolean;
  matches?: ((entry: T) => boolean) | undefined;
}

export interface Page<T> {
  entries: readonly T[];
  headers: { Link: string } | undefined;
  /**
   * How many calls it costs in the caller's rate limit to read the entries of the page. The request itself costs one
   * more.
   */
  priceInCalls: number;
}

/**
 * Cuts listings into pages. Each entry of a listing has a place: the text by which the listing is sorted, such as a
 * name. The query parameter `after` is the place of the last entry on the previous page. It is encrypted for two
 * reasons:
 *
 * - A place may be a secret token, and proxies in front of the bus may log URLs.
 * - Callers who could send any place could guess a token letter by letter: they would ask whether it comes after `k`,
 *   after `l`, and so on.
 */
export class Pages {
  readonly #key: { load(): Promise<Buffer> };

  constructor(key: { load(): Promise<Buffer> }) {
    this.#key = key;
  }

  /**
   * Returns a page of the entries, sorted by the text that `placeOf` returns. If `matches` is given, only matching
   * entries are listed. If `isSorted` is true, the entries are already sorted, and a binary search finds the page.
   * Returns undefined if the caller wants the whole list: the query has neither `limit` nor `after`, and there is no
   * `matches`.
   */
  async cut<T>(
    { path, query: { limit, after, ...others } }: Pick<PagedCall, 'path' | 'query'>,
    all: () => Promise<readonly T[]>,
    placeOf: (entry: T) => string,
    { isSorted = false, matches }: Cutting<T> = {},
  ): Promise<Page<T> | undefined> {
    if (limit === undefined && after === undefined && !matches) return undefined;
    const place = after && (await this.open(path, 'after', after));
    const size = limit ?? DEFAULT_LISTED;
    const entries = await all();
    const list = matches ? entries.filter(matches) : entries;
    const from = isSorted && place !== undefined ? firstIndex(list, (entry) => placeOf(entry) > place) : 0;
    const { entries: page, last } = pickPage(isSorted ? list.slice(from, from + size + 1) : list, {
      rankOf: (entry) => ({ value: 0, name: placeOf(entry) }),
      after: place === undefined ? undefined : { value: 0, name: place },
      limit: size,
    });
    const headers = last && nextLink(path, { ...others, limit, after: await this.seal(path, last.name) });
    return { entries: page, headers, priceInCalls: entries.length / ENTRIES_PER_CALL };
  }

  /**
   * Returns a page of the entries in `all` for which `matches` is true, sorted by the rank that `rankOf` returns.
   * `sort` is the name of this order, such as `queued`.
   */
  async cutRanked<T>(
    { path, query: { after, ...query } }: RankedCall,
    sort: string,
    all: readonly T[],
    { rankOf, matches }: { rankOf: (entry: T) => Rank; matches: (entry: T) => boolean },
  ): Promise<Page<T>> {
    const listing = `${path} ${sort}`;
    const place = after === undefined ? undefined : await this.open(listing, 'after', after);
    const [value, name = ''] = place?.split(' ', 2) ?? [];
    const { entries, last, priceInCalls } = pickPage(all, {
      matches,
      rankOf,
      after: place === undefined ? undefined : { value: Number(value), name },
      limit: query.limit ?? DEFAULT_LISTED,
    });
    const sealed = last && (await this.seal(listing, `${last.value} ${last.name}`));
    return { entries, headers: last && nextLink(path, { ...query, after: sealed }), priceInCalls };
  }

  /** Encrypts the place of an entry for links to pages of the listing at `path`. */
  async seal(path: string, place: string): Promise<string> {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, await this.#keyOf(path), iv);
    const bytes = [iv, cipher.update(place), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(bytes).toString('base64url');
  }

  /**
   * Decrypts the place of an entry, as `seal` encrypted it for the listing at `path`. `name` is the query parameter
   * that had this text. Throws bad_query if the text was not made by `seal` for this listing.
   */
  async open(path: string, name: string, text: string): Promise<string> {
    const bytes = Buffer.from(text, 'base64url');
    const key = await this.#keyOf(path);
    try {
      const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_BYTES));
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      return (
        decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      );
    } catch (cause) {
      throw badParameter(name, PLACE_RULE, cause);
    }
  }

  async #keyOf(path: string): Promise<Buffer> {
    return hash('sha256', Buffer.concat([await this.#key.load(), Buffer.from(path)]), 'buffer');
  }
}
