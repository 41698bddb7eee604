import { editDistance } from '../edit_distance.ts';
import type { Route } from '../routing/route.ts';

/**
 * A typed word counts as a misspelling of a route's word if it has at most one mistake for every three letters of the
 * route's word.
 */
const LETTERS_PER_MISTAKE = 3;

/**
 * For a `path` that does not accept `method`, returns the most similar path that does. Returns undefined if no path is
 * similar. Slashes at the end do not count, and capitals count as small letters.
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
 * Compares the path of a route with a given path, part by part. Returns the number of misspelled letters, and the given
 * path with the words spelled as in the route.
 */
function compared(parts: readonly string[], given: readonly string[]): { mistakes: number; path: string } {
  if (parts.length === 0 || parts.length !== given.length)
    return { mistakes: Number.POSITIVE_INFINITY, path: '' };
  const all = parts.map((part, index) => mistakesIn(given[index] ?? '', part));
  return {
    mistakes: all.reduce((sum, each) => sum + each, 0),
    path: `/${parts.map((part, index) => (part.startsWith(':') ? given[index] : part)).join('/')}`,
  };
}

function mistakesIn(given: string, word: string): number {
  if (word.startsWith(':')) return 0;
  const max = word.length / LETTERS_PER_MISTAKE;
  // The lengths are compared first, because a path may have 16 KiB, and comparing its characters would take long.
  if (Math.abs(given.length - word.length) > max) return Number.POSITIVE_INFINITY;
  const typed = given.toLowerCase();
  const mistakes = editDistance(typed, word);
  if (mistakes <= max) return mistakes;
  // Some calls take either word, and others one alone. Using the other one counts as a mistake.
  const renamed = typed.replace(/^subscription/, 'subscriber');
  return renamed === typed ? Number.POSITIVE_INFINITY : 1 + mistakesIn(renamed, word);
}
