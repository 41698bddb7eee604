import type { SendCommand } from './delivery_store.ts';
import type { ReceivedEvent } from './event.ts';
import type { Handler } from './receiver.ts';

/**
 * Stores dirty URLs, each with the time of its newest event. A URL is dirty if it had an event and was not handled
 * since.
 */
export interface DirtyStore {
  /** Adds URLs with their times. A URL that is already stored gets the later of the two times. */
  mark(times: ReadonlyMap<string, number>): Promise<void>;
  /** Returns up to `limit` URLs with their times, in no particular order. */
  some(limit: number): Promise<[url: string, t: number][]>;
  /** Removes a URL, unless it was marked with a later time than `t` meanwhile. */
  clean(url: string, t: number): Promise<void>;
  count(): Promise<number>;
}

/**
 * Collects the URLs of events, so that a program can fetch them later, at its own speed. A URL is handled once,
 * however often it has changed until then.
 */
export class DirtyMap {
  readonly #store: DirtyStore;

  constructor(store: DirtyStore = new MemoryDirtyStore()) {
    this.#store = store;
  }

  /** Returns a handler of events that marks their URLs as dirty, so that `sweep` handles them later. */
  handler(): Handler {
    return async (events) => {
      await this.#store.mark(newestTimes(events));
    };
  }

  /** Returns the number of URLs that are still to be handled. */
  count(): Promise<number> {
    return this.#store.count();
  }

  /**
   * Calls `handle` for each dirty URL, one after the other. A URL is dirty if it has an event that was not handled yet.
   * If `handle` resolves, the URL is clean, unless a newer event came meanwhile. If `handle` throws, the URL stays
   * dirty, and `sweep` throws AggregateError at the end. Returns the number of handled URLs.
   */
  async sweep(handle: (url: string) => Promise<void> | void): Promise<number> {
    const tried = new Set<string>();
    const errors: unknown[] = [];
    for (;;) {
      const urls = (await this.#store.some(100 + tried.size)).filter(([url]) => !tried.has(url));
      if (urls.length === 0) break;
      for (const [url, t] of urls) {
        tried.add(url);
        try {
          await handle(url);
          await this.#store.clean(url, t);
        } catch (error) {
          errors.push(error);
        }
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of ${tried.size} URLs failed`);
    return tried.size;
  }
}

function newestTimes(events: readonly ReceivedEvent[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const { url, t } of events) times.set(url, Math.max(t, times.get(url) ?? t));
  return times;
}

/** Stores dirty URLs in the memory of one process. */
export class MemoryDirtyStore implements DirtyStore {
  readonly #times = new Map<string, number>();

  async mark(times: ReadonlyMap<string, number>): Promise<void> {
    for (const [url, t] of times) this.#times.set(url, Math.max(t, this.#times.get(url) ?? t));
  }

  async some(limit: number): Promise<[string, number][]> {
    return [...this.#times].slice(0, limit);
  }

  async clean(url: string, t: number): Promise<void> {
    if (this.#times.get(url) === t) this.#times.delete(url);
  }

  async count(): Promise<number> {
    return this.#times.size;
  }
}

const CLEAN = `
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) == tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end`;

/**
 * Stores dirty URLs (URLs with an event that is still to be handled) in a sorted set in Redis. All processes of a
 * service share this set.
 */
export class RedisDirtyStore implements DirtyStore {
  readonly #send: SendCommand;
  readonly #key: string;

  constructor(send: SendCommand, { key = 'routemaster:dirty' } = {}) {
    this.#send = send;
    this.#key = key;
  }

  async mark(times: ReadonlyMap<string, number>): Promise<void> {
    if (times.size === 0) return;
    const entries = [...times].flatMap(([url, t]) => [String(t), url]);
    await this.#send('ZADD', this.#key, 'GT', ...entries);
  }

  async some(limit: number): Promise<[string, number][]> {
    const reply = (await this.#send('ZRANGE', this.#key, '0', String(limit - 1), 'WITHSCORES')) as unknown[];
    const texts = reply.flat().map(String);
    return texts.flatMap((url, index) =>
      index % 2 === 0 ? [[url, Number(texts[index + 1])] as [string, number]] : [],
    );
  }

  async clean(url: string, t: number): Promise<void> {
    await this.#send('EVAL', CLEAN, '1', this.#key, url, String(t));
  }

  async count(): Promise<number> {
    return Number(await this.#send('ZCARD', this.#key));
  }
}
