import { type Content, html } from '../html.ts';
import type { Role } from '../routing/caller.ts';
import type { Route } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { live } from './layout.ts';
import { type PageRequest, page } from './page.ts';
import { type Columns, nextPage, pathWith, table } from './parts.ts';

interface Listing<T> {
  path: `/console${string}`;
  roles: readonly Role[];
  title: string;
  /** The API call that returns the entries, such as `GET /topics`. */
  name: string;
  /** The query of the API call, by default a `limit` of 100. Parameters in the address of the page take precedence. */
  query?: Record<string, string>;
  /** Returns the part of an entry that the page shows, to save memory. If absent, the page gets whole entries. */
  keep?: ((entry: never) => T) | undefined;
  /** The id of the element with the list. Absent if an open page does not refresh the list. */
  liveId?: string;
}

interface Shown<T> {
  /** The content above the table: the heading and, for example, a filter. By default it is only the title. */
  above?: Content;
  columns: Columns<T>;
  empty: Content;
  /** A remark below the table, which is refreshed with it. */
  remark?: Content;
  below?: Content;
}

export const FIRST_PAGE = { limit: '100' };

/**
 * Makes the route of a page that shows what an API call lists. `shownTo` returns the columns and the text around the
 * table. Its argument `hasNext` is true if another page follows.
 */
export function listingPage<T>(
  api: ApiCalls,
  { path, roles, title, name, query: defaults = FIRST_PAGE, keep, liveId }: Listing<T>,
  shownTo: (
    call: PageRequest,
    nowMs: number,
    entries: readonly T[],
    hasNext: boolean,
  ) => Shown<T> | Promise<Shown<T>>,
): Route {
  return page(path, roles, async (call) => {
    const query = { ...defaults, ...call.query };
    const { body, next } = await api.call<T[] | undefined>(name, call, { query, ...(keep && { keep }) });
    const entries = body ?? [];
    const shown = await shownTo(call, await api.nowMs(), entries, next !== undefined);
    const { above = html`<h1>${title}</h1>`, columns, empty, remark, below } = shown;
    const content = [table(columns, entries, empty), nextPage(path, next), remark];
    const list = liveId === undefined ? content : live(liveId, pathWith(path, call.query), content);
    return { title, current: path, body: [above, list, below] };
  });
}
