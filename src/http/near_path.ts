import { mistakesIn } from '../edit_distance.ts';
import type { Route } from '../routing/route.ts';
import { sumOf } from '../sum.ts';

/**
 * Returns the path that a caller probably meant by `path`: among the routes with `method`, the path with the fewest
 * spelling mistakes. Returns undefined if none is similar. Ignores capitals, and slashes at the end. If only the name
 * at the end is missing, as in `POST /topics`, the path ends with the name of this part: `/topics/:name`.
 */
export function nearPath(routes: readonly Route[], method: string, path: string): string | undefined {
  const given = path.split('/').filter(Boolean);
  const near = routes
    .filter((route) => route.method === (method === 'HEAD' ? 'GET' : method))
    .map((route) => compared(route.path.split('/').filter(Boolean), given))
    .filter(({ mistakes }) => mistakes < Number.POSITIVE_INFINITY);
  return near.sort((one, other) => one.mistakes - other.mistakes)[0]?.path;
}

/**
 * Compares the parts of a route's path with those of a requested path. `mistakes` is the number of misspelled letters,
 * or infinity if the paths are too different. A missing name at the end counts as one. `path` is the requested path
 * without these mistakes.
 */
function compared(parts: readonly string[], given: readonly string[]): { mistakes: number; path: string } {
  const last = parts.at(-1);
  if (last?.startsWith(':') && parts.length > 1 && parts.length === given.length + 1) {
    const { mistakes, path } = compared(parts, [...given, last]);
    return { mistakes: mistakes + 1, path };
  }
  if (parts.length === 0 || parts.length !== given.length)
    return { mistakes: Number.POSITIVE_INFINITY, path: '' };
  const all = parts.map((part, index) => mistakesInPart(given[index] ?? '', part));
  return {
    mistakes: sumOf(all),
    path: `/${parts.map((part, index) => (part.startsWith(':') ? given[index] : part)).join('/')}`,
  };
}

function mistakesInPart(given: string, part: string): number {
  if (part.startsWith(':')) return 0;
  const mistakes = mistakesIn(given, part);
  // Some paths begin with `subscriber`, others with `subscription`. A caller who takes the wrong word has made one
  // mistake, although many letters differ.
  const renamed = given.replace(/^subscription/i, 'subscriber');
  return mistakes < Number.POSITIVE_INFINITY || renamed === given ? mistakes : 1 + mistakesIn(renamed, part);
}
