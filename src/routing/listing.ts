import { chunksOf } from '../chunks.ts';
import type { Page } from './paging.ts';
import { ok } from './route.ts';

/** Maximum entries that are converted to JSON in one turn of the event loop, unless a route sets another maximum. */
const MAX_ENTRIES_PER_TURN = 200;

type Show<T, Shown> = (slice: readonly T[]) => Promise<Shown[]>;

/**
 * Returns an answer that lists all entries, as `show` converts them. A long list is converted and sent in pieces, so
 * that other requests can be handled in between. `page` is for a listing of several pages: it has the `Link` header to
 * the next page, and the cost of this page in the caller's rate limit.
 */
export async function listed<T, Shown>(
  all: readonly T[],
  show: Show<T, Shown>,
  page?: Page<unknown>,
  size = MAX_ENTRIES_PER_TURN,
) {
  const { headers, priceInCalls = 0 } = page ?? {};
  const body = all.length <= size ? await show(all) : pieces(all, show, size);
  return { ...ok(body), headers, priceInCalls };
}

async function* pieces<T, Shown>(
  all: readonly T[],
  show: Show<T, Shown>,
  size: number,
): AsyncGenerator<string> {
  let before = '[';
  for await (const chunk of chunksOf(all, size)) {
    // No variable holds what `show` returns: it can take megabytes, and would be kept until the caller asks for more.
    const text = JSON.stringify(await show(chunk)).slice(1, -1);
    // Nothing is shown of entries that have been removed meanwhile, or cannot be read.
    if (text === '') continue;
    yield before + text;
    before = ',';
  }
  if (before === '[') yield before;
  yield ']';
}
