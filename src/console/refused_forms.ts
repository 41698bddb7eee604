import { parse } from 'node:querystring';
import { BusError, StorageUnavailable } from '../errors.ts';
import { checked } from '../http/validation.ts';
import type { Answer, Call, Route } from '../routing/route.ts';
import { parseUrl } from '../urls.ts';
import { chargeOf } from './api_calls.ts';
import type { AnyFields, Refusal } from './fields.ts';

/**
 * Wraps the route of a form. If the form is refused, the page that its field `from` names is shown again, with the
 * error and what was typed. If that page cannot be shown, the error gets a page of its own.
 */
export function withSecondTry(route: Route, pages: readonly Route[]): Route {
  if (route.method !== 'POST') return route;
  const handle = async (call: Call): Promise<Answer> => {
    try {
      return await route.handle(call);
    } catch (error) {
      // StorageUnavailable means that Redis is away. The page reads Redis too, so it cannot be shown either. A fault
      // inside the bus (`internal`) is no refusal of the form. It is thrown again, and logged by the code that catches
      // it.
      const isRefusal = error instanceof BusError && error.code !== 'internal';
      const isShown = isRefusal && !(error instanceof StorageUnavailable);
      const answer = isShown && (await pageAgain(call, error, pages));
      if (answer) return answer;
      throw error;
    }
  };
  return { ...route, handle: handle as Route['handle'] };
}

/** Resolves with the page of a refused form, or with undefined if it cannot be shown. */
async function pageAgain(call: Call, error: BusError, pages: readonly Route[]): Promise<Answer | undefined> {
  const { request, caller, body } = call;
  const { from, ...fields } = body as AnyFields;
  const url = typeof from === 'string' && parseUrl(from, 'http://console');
  if (!url) return undefined;
  const found = pageAt(pages, url.pathname);
  if (!found?.route.roles.includes(caller.role)) return undefined;
  const [path = ''] = (request.url ?? '').split('?');
  const refusal: Refusal = { path, from: url.pathname + url.search, fields, error };
  try {
    const { route, params } = found;
    const answer: Answer = await route.handle({
      ...{ ...call, path: url.pathname, params: checked(route.params, params), body: undefined, text: '' },
      query: checked(route.query, parse(url.search.slice(1))),
      refusal,
    } as Call);
    const priceInCalls = (answer.priceInCalls ?? 0) + chargeOf(call) + (error.priceInCalls ?? 0);
    return { ...answer, code: error.code, priceInCalls };
  } catch (failure) {
    if (failure instanceof BusError) return undefined;
    throw failure;
  }
}

/** Returns the route of the page at a path, which may end in a slash, and the parameters in the path. */
function pageAt(pages: readonly Route[], path: string) {
  for (const route of pages) {
    const pattern = new RegExp(`^${route.path.replace(/:(\w+)/g, '(?<$1>[^/]+)')}/?$`);
    const found = route.method === 'GET' && pattern.exec(path);
    if (!found) continue;
    const params = Object.entries(found.groups ?? {}).map(([name, text]) => [name, decoded(text)]);
    return { route, params: Object.fromEntries(params) as Record<string, string> };
  }
  return undefined;
}

/**
 * Returns the path of the page to show after a login: `path` or, if no page is there, that of the nearest page above
 * it. For `/console/topics/widgets/publish`, to which a form is sent, this is `/console/topics/widgets`.
 */
export function pageNear(pages: readonly Route[], path: string): string {
  const above = (place: string) => place.slice(0, place.lastIndexOf('/'));
  const places = [path, above(path), above(above(path))];
  return places.find((each) => pageAt(pages, each)) ?? '/console';
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
