import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Answer, Call, Route } from '../route.ts';
import { isRefresh } from './layout.ts';

/**
 * Time for which an answer is shared. It is a little less than the time that a tab waits between two refreshes. So a
 * tab never gets the same answer twice in a row.
 */
const SHARED_MS = 1900;
const MAX_SHARED = 100;

/**
 * Shares answers between tabs. The live parts of a page are the parts that it refreshes every few seconds. Tabs that
 * show the same page to the same caller get one answer, which is made and compressed once. The session of each request
 * is checked all the same. A form in such an answer has no form token, since several sessions of the caller share the
 * answer. `console.js` fills in the token.
 */
export class LiveParts {
  readonly #shared = new LRUCache<string, Promise<Answer>>({
    ...{ max: MAX_SHARED, ttl: SHARED_MS, ttlResolution: 0 },
    perf: { now: () => clock.monotonicMs() },
  });

  /**
   * Returns the route in place of which the given route of the console is served. The new route of a page shares the
   * answers to refreshes. The new route of a form forgets all shared answers.
   */
  share(route: Route): Route {
    const { method, handle } = route;
    if (method !== 'GET') return { ...route, handle: (call) => this.#after(handle(call)) };
    return {
      ...route,
      handle: (call) => (isRefresh(call.headers) ? this.#part(call, handle) : handle(call)) as never,
    };
  }

  /**
   * Forgets all shared answers when a form is done. The form has changed something, and the next refresh must show the
   * change.
   */
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
    // The rate limit charges only the first caller who gets an answer, because sharing the answer with others costs the
    // bus almost nothing.
    if (known) return known.then((answer) => ({ ...answer, calls: 0 }));
    const made: Promise<Answer> = handle({ ...call, formToken: '' });
    this.#shared.set(key, made);
    made.catch(() => this.#shared.get(key) === made && this.#shared.delete(key));
    return made;
  }
}
