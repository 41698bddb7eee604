import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Answer, Call, Route } from '../routing/route.ts';
import { isRefresh } from './layout.ts';

/**
 * Time for which browser tabs share the answer to a refresh. It is a little less than the time between two refreshes of
 * a tab, so that no tab gets the same answer twice.
 */
const SHARED_MS = 1900;
const MAX_SHARED = 100;

/**
 * Shares the answers to refreshes among the browser tabs that show the same page to the same caller, so that each
 * answer is made only once. A shared answer has no form token, because each login session has its own: `console.js`
 * puts it into the forms.
 */
export class LiveParts {
  readonly #shared = new LRUCache<string, Promise<Answer>>({
    max: MAX_SHARED,
    ttl: SHARED_MS,
    ttlResolution: 0,
    ttlAutopurge: true,
    perf: { now: () => clock.monotonicMs() },
  });

  /**
   * Wraps a route of the console. If it is the route of a page, tabs share its answers to refreshes. If it is the route
   * of a form, each use of the form discards the answers that tabs share, which may now be outdated.
   */
  share(route: Route): Route {
    const { method, handle } = route;
    if (method !== 'GET') return { ...route, handle: (call) => this.#after(handle(call)) };
    return {
      ...route,
      handle: (call) => (isRefresh(call.headers) ? this.#part(call, handle) : handle(call)) as never,
    };
  }

  async #after<T>(done: Promise<T>): Promise<T> {
    try {
      return await done;
    } finally {
      this.#shared.clear();
    }
  }

  #part(call: Call, handle: Route['handle']): Promise<Answer> {
    const { caller, path, query, headers } = call;
    const key = JSON.stringify([caller, path, query, headers['accept-encoding']]);
    const known = this.#shared.get(key);
    // Only the request for which the answer was made counts in the caller's rate limit.
    if (known) return known.then((answer) => ({ ...answer, priceInCalls: 0 }));
    const made: Promise<Answer> = handle({ ...call, formToken: '' });
    this.#shared.set(key, made);
    made.catch(() => this.#shared.get(key) === made && this.#shared.delete(key));
    return made;
  }
}
