import { refuseNoSender, type SendCommand } from './delivery_store.ts';
import type { ReceivedEvent } from './event.ts';
import type { Handler } from './receiver.ts';

/**
 * Stores dirty URLs: those that have had an event since they were last handled. Each delivery with an event of a URL
 * gives the URL a new version. By the version, `clean` notices an event that came while the URL was being handled.
 */
export interface DirtyStore {
  /** Makes URLs dirty, each with a new version. `times` has the time of each URL's newest event. */
  mark(times: ReadonlyMap<string, number>): Promise<void>;
  /** Returns up to `limit` dirty URLs, each with its version. */
  some(limit: number): Promise<[url: string, version: number][]>;
  /** Removes a URL that was handled, unless its version is newer than `version`, which `some()` returned. */
  clean(url: string, version: number): Promise<void>;
  count(): Promise<number>;
}

/**
 * Collects the URLs of events, so that a program can handle them later, at its own speed. A URL is handled once,
 * however often it has changed until then.
 */
export class DirtyMap {
  readonly #store: DirtyStore;
  #running: Promise<number> | undefined;
  /** The sweep that begins when the running one has ended. */
  #next: Promise<number> | undefined;

  constructor(store: DirtyStore = new MemoryDirtyStore()) {
    this.#store = store;
  }

  /** Returns a handler of events that makes their URLs dirty, so that `sweep` handles them later. */
  handler(): Handler {
    return async (events) => {
      await this.#store.mark(newestTimes(events));
    };
  }

  count(): Promise<number> {
    return this.#store.count();
  }

  /**
   * Calls `handle` for each dirty URL, one after the other. If `handle` resolves, the URL is clean, unless another
   * event came meanwhile. If `handle` throws, the URL stays dirty, and `sweep` throws AggregateError at the end.
   * Returns the number of handled URLs.
   *
   * Only one sweep runs at a time. All calls that are made during a sweep share one further sweep. It begins when the
   * running one has ended, and uses the `handle` of the first of these calls. If two sweeps handled a URL at once, the
   * slower one could store what it had read over the newer data that the other had stored. So `handle` must not await a
   * sweep of the same map: it would wait for itself.
   */
  sweep(handle: (url: string) => Promise<void> | void): Promise<number> {
    this.#next ??= this.#sweepNext(handle);
    return this.#next;
  }

  async #sweepNext(handle: (url: string) => Promise<void> | void): Promise<number> {
    // If the running sweep fails, its own caller gets the error.
    await this.#running?.catch(() => {});
    this.#next = undefined;
    this.#running = this.#sweepNow(handle);
    return this.#running;
  }

  async #sweepNow(handle: (url: string) => Promise<void> | void): Promise<number> {
    const tried = new Set<string>();
    const errors: unknown[] = [];
    for (;;) {
      const urls = (await this.#store.some(100 + tried.size)).filter(([url]) => !tried.has(url));
      if (urls.length === 0) break;
      for (const [url, version] of urls) {
        tried.add(url);
        try {
          await handle(url);
          await this.#store.clean(url, version);
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

/** Stores dirty URLs in the memory of one process. When the process ends, URLs that were not handled are lost. */
export class MemoryDirtyStore implements DirtyStore {
  readonly #urls = new Map<string, number>();
  #versions = 0;

  async mark(times: ReadonlyMap<string, number>): Promise<void> {
    for (const url of times.keys()) this.#urls.set(url, ++this.#versions);
  }

  async some(limit: number): Promise<[string, number][]> {
    return [...this.#urls].slice(0, limit);
  }

  async clean(url: string, version: number): Promise<void> {
    if (this.#urls.get(url) === version) this.#urls.delete(url);
  }

  async count(): Promise<number> {
    return this.#urls.size;
  }
}

// The version of a URL is Redis's time in microseconds, so no version is used twice. A counter for each URL would begin
// at 1 again after the URL was removed. A slow sweep that had read the old version 1 could then remove the URL,
// although it has become dirty again. The version is a whole number, because node-redis (5.12, with `RESP: 3`) reads
// 1796060446034.377 as 1796060446034.3772. `clean` would then find a newer version, and the URL would stay dirty.
const MARK = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, url in ipairs(ARGV) do redis.call('ZADD', KEYS[1], now, url) end`;
const CLEAN = `
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) == tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end`;

interface RedisDirtyOptions {
  /**
   * The key of the sorted set, such as `search:dirty`. Each map of each service needs a key of its own. If two maps
   * shared a key, a URL that one map has handled would be clean for the other map too.
   */
  key: string;
}

const NO_KEY =
  "give a key that no other map or service has, such as { key: 'search:dirty' }; otherwise a URL that one has " +
  'handled would be clean for all';

/** Stores dirty URLs in a sorted set in Redis, which all processes of a service share. */
export class RedisDirtyStore implements DirtyStore {
  readonly #send: SendCommand;
  readonly #key: string;

  /** Throws TypeError if there is no key, or if `send` is no function. */
  constructor(send: SendCommand, options: RedisDirtyOptions) {
    // In JavaScript, the options or the key can be missing.
    const { key } = options ?? {};
    if (!key) throw new TypeError(NO_KEY);
    refuseNoSender(send);
    this.#send = send;
    this.#key = key;
  }

  async mark(times: ReadonlyMap<string, number>): Promise<void> {
    if (times.size === 0) return;
    await this.#send('EVAL', MARK, '1', this.#key, ...times.keys());
  }

  async some(limit: number): Promise<[string, number][]> {
    const reply = (await this.#send('ZRANGE', this.#key, '0', String(limit - 1), 'WITHSCORES')) as unknown[];
    const texts = reply.flat().map(String);
    return texts.flatMap((url, index) =>
      index % 2 === 0 ? [[url, Number(texts[index + 1])] as [string, number]] : [],
    );
  }

  async clean(url: string, version: number): Promise<void> {
    await this.#send('EVAL', CLEAN, '1', this.#key, url, String(version));
  }

  async count(): Promise<number> {
    return Number(await this.#send('ZCARD', this.#key));
  }
}
