import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Answer, Call, Route } from '../route.ts';
import { isRefresh } from './layout.ts';

/** Time for which a part is shared: a little less than a tab waits between two refreshes, so one tab always gets news. */
const SHARED_MS = 1900;
const MAX_SHARED = 100;

/**
 * Shares the live parts of pages. Tabs that show the same page to the same caller get one answer, which is made and
 * compressed once. The session of each request is checked all the same. Forms in such a part have no token, since the
 * sessions of a caller share it; `console.js` fills it in.
 */
export class LiveParts {
  readonly #shared = new LRUCache<string, Promise<Answer>>({
    ...{ max: MAX_SHARED, ttl: SHARED_MS, ttlResolution: 0 },
    perf: { now: () => clock.monotonicMs() },
  });

  /** Returns the route of a page that shares its live parts, or of a form that ends what is shared. */
  share(route: Route): Route {
    const { method, handle } = route;
    if (method !== 'GET') return { ...route, handle: (call) => this.#after(handle(call)) };
    return {
      ...route,
      handle: (call) => (isRefresh(call.headers) ? this.#part(call, handle) : handle(call)) as never,
    };
  }

  /** A form has changed something, so the next refresh must show it. */
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
    // Who shares a part costs the bus nothing more, so only the first one is charged for its calls.
    if (known) return known.then((answer) => ({ ...answer, calls: 0 }));
    const made: Promise<Answer> = handle({ ...call, formToken: '' });
    this.#shared.set(key, made);
    made.catch(() => this.#shared.get(key) === made && this.#shared.delete(key));
    return made;
  }
}
