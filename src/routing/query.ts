import { z } from 'zod';
import { nearestWord } from '../edit_distance.ts';
import { BusError } from '../errors.ts';
import type { Caller } from './caller.ts';
import type { Dialect } from './dialect.ts';
import type { Route, Wording } from './route.ts';

/**
 * Calls that exist in the Ruby Routemaster, and other calls that its clients make. These clients may send unknown query
 * parameters, because the Ruby Routemaster ignored them. `GET /health` is missing here because routes without
 * credentials accept unknown parameters anyway.
 */
const CALLS_OF_ROUTEMASTER: ReadonlySet<string> = new Set([
  ...['GET /api_tokens', 'POST /api_tokens', 'DELETE /api_tokens/:token'],
  ...['GET /topics', 'POST /topics/:name', 'DELETE /topics/:name', 'DELETE /topic/:name'],
  ...['GET /subscriptions', 'GET /subscribers', 'POST /subscription', 'POST /subscriber'],
  ...['DELETE /subscriber', 'DELETE /subscriber/topics/:name'],
  ...['GET /pulse', 'GET /pulse/scaling'],
]);

/** Declares the query parameters of a route by the schema of each. All other parameters are refused. */
export function parameters<const Shape extends z.ZodRawShape>(shape: Shape) {
  return { schema: z.strictObject(shape), wording: wordingFor(Object.keys(shape)) };
}

const NO_PARAMETERS = parameters({});

/**
 * The error message if a query has the same parameter twice. The parameter's value is then a list instead of a text.
 */
export const ONCE = 'must be given once';

/**
 * Returns the schema of a query parameter that names a client. The call lists or changes things of this client. `what`
 * is the word for these things, such as `triggers`.
 */
export const whose = (what: string) =>
  z.string(ONCE).min(1, 'is empty').optional().describe(`Whose ${what}; for root and viewers.`);

/** Maximum characters of the text by which a listing is searched. */
const MAX_SOUGHT = 100;

/**
 * Returns the schema of a query parameter by which a caller searches a listing for a text. `meaning` is its description
 * in the API document: which field of an entry must contain the text.
 */
export const sought = (meaning: string) =>
  z.string(ONCE).max(MAX_SOUGHT, `has at most ${MAX_SOUGHT} characters`).optional().describe(meaning);

/** Returns the error for a parameter that breaks a rule. */
export function badParameter(name: string, rule: string, cause?: unknown): BusError {
  return new BusError('bad_query', `${name} ${rule}`, { members: { field: name }, cause });
}

/**
 * Returns the token of the client that a call is about. For a client, this is its own token. For root and viewers, it
 * is `given`: the value of the query parameter `field`, or undefined.
 *
 * Throws if a client gives this parameter. `advicePart` is a part of the error message, such as `your own batches are`
 * in `leave it out, and your own batches are meant`.
 */
export function clientNamed(
  caller: Caller,
  given: string | undefined,
  field: string,
  advicePart: string,
): string | undefined {
  if (caller.role !== 'client') return given;
  if (given === undefined) return caller.token;
  throw badParameter(field, `is for root; leave it out, and ${advicePart} meant`);
}

/**
 * Returns the routes of the API with query schemas that refuse unknown parameters. Only two kinds of routes accept
 * unknown parameters:
 *
 * - Routes that need no credentials. Hosting platforms may add parameters to health checks, and would restart a healthy
 *   process if one were refused. Other sites may add parameters to links to `/docs`.
 * - Calls of the Ruby Routemaster, if the dialect ignores unknown parameters.
 */
export function declaredQueries(
  routes: readonly Route[],
  { ignoresUnknownParameters }: Pick<Dialect, 'ignoresUnknownParameters'>,
): Route[] {
  return routes.map((route) => {
    if (route.roles.length === 0) return route;
    const { query = NO_PARAMETERS } = route;
    const isLoose = ignoresUnknownParameters && CALLS_OF_ROUTEMASTER.has(`${route.method} ${route.path}`);
    return {
      ...route,
      query: isLoose ? { ...query, schema: (query.schema as z.ZodObject).strip() } : query,
    };
  });
}

function wordingFor(names: readonly string[]): Wording {
  return {
    code: 'bad_query',
    whole: 'the query cannot be read',
    field: (name, rule) => `${name} ${rule}`,
    unknown: (name) => `${name} is nothing that can be asked for here; ${advice(name, names)}`,
  };
}

/** Returns what an error advises about an unknown name: the known name that it misspells, or all known names. */
export function advice(name: string, known: readonly string[]): string {
  const near = nearestWord(name, known);
  if (near !== undefined) return `did you mean ${near}?`;
  return known.length === 0 ? 'this call takes no parameters' : `use ${known.join(', ')}`;
}
