import { type Content, html } from '../html.ts';
import type { Role } from '../routing/caller.ts';
import type { Call, Route } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { ANY_QUERY, type Column, nextPage, pathWith, table } from './parts.ts';

interface Listing<T> {
  path: `/console${string}`;
  roles: readonly Role[];
  title: string;
  /** The call of the API that returns the entries, such as `GET /topics`. */
  name: string;
  /** Returns what the page needs of an entry. Absent if it needs all. */
  keep?: ((entry: never) => T) | undefined;
  /** The id of the list in an open page, which refreshes it. Absent if it is not refreshed. */
  liveId?: string;
}

interface Shown<T> {
  /** Stands above the table: the heading and, for example, a filter. By default only the title. */
  above?: Content;
  columns: readonly Column<T>[];
  /** Stands in place of the table if there are no entries. */
  empty: Content;
  below?: Content;
}

type ListCall = Call<Role, unknown, Record<string, string | undefined>>;

/**
 * Makes the route of a page that lists what the API returns, by default 100 entries. `shownTo` says how, for a visitor
 * and the present time. `hasNext` is true if another page follows.
 */
export function listingPage<T>(
  api: ApiCalls,
  { path, roles, title, name, keep, liveId }: Listing<T>,
  shownTo: (call: ListCall, nowMs: number, hasNext: boolean) => Shown<T>,
): Route {
  return page(path, roles, {
    query: ANY_QUERY,
    async show(call) {
      const query = { limit: '100', ...call.query };
      const { body, next } = await api.call<T[] | undefined>(name, call, { query, ...(keep && { keep }) });
      const shown = shownTo(call, await api.nowMs(), next !== undefined);
      const { above = html`<h1>${title}</h1>`, columns, empty, below } = shown;
      const content = [above, table(columns, body ?? [], empty), nextPage(path, next), below];
      const list = liveId === undefined ? content : live(liveId, pathWith(path, call.query), content);
      return { title, current: path, body: list };
    },
  });
}
