import { refuseNoSender, refuseWrongNumber, type SendCommand } from './delivery_store.ts';
import type { Delivery, ReceivedEvent } from './event.ts';
import type { Handled, Handler } from './receiver.ts';

/** Remembers, for each URL, the time `t` of the newest event that was handled. */
export interface NewestStore {
  /** Returns, for each of these URLs, the time of the newest handled event, or undefined if no time is stored. */
  read(urls: string[]): Promise<(number | undefined)[]>;
  /** Stores the time of each URL in `times`, unless a later time is stored already. */
  save(times: ReadonlyMap<string, number>): Promise<void>;
}

/**
 * Returns a handler that ignores outdated events. Of the events for one URL in a delivery, only the newest goes to
 * `handler`, and only if it is newer than all events for the URL that were handled before. If `handler` fails for an
 * event, the event is passed on again when the bus repeats the delivery.
 */
export function onlyNewest<Data>(store: NewestStore, handler: Handler<Data>): Handler<Data> {
  return async (events: ReceivedEvent<Data>[], delivery: Delivery): Promise<Handled> => {
    const newest = new Map<string, ReceivedEvent<Data>>();
    for (const event of events) {
      const before = newest.get(event.url);
      if (before && event.t < before.t) continue;
      // Deleted first, so that `handler` gets the events in their order.
      newest.delete(event.url);
      newest.set(event.url, event);
    }
    const known = await store.read([...newest.keys()]);
    const news = [...newest.values()].filter(
      ({ t }, index) => t > (known[index] ?? Number.NEGATIVE_INFINITY),
    );
    if (news.length === 0) return;
    const handled = await handler(news, delivery);
    const failed = new Set(handled?.failed);
    const done = news.filter(({ id }) => !failed.has(id));
    await store.save(new Map(done.map(({ url, t }) => [url, t])));
    return handled;
  };
}

/**
 * Stores in memory, for each URL, the time of the newest event that was handled. It has room for `max` URLs, by default
 * 100,000. When it is full, it forgets the URLs that were stored longest ago.
 */
export class MemoryNewestStore implements NewestStore {
  readonly #times = new Map<string, number>();
  readonly #max: number;

  constructor({ max = 100_000 }: { max?: number } = {}) {
    refuseWrongNumber('max', max);
    this.#max = max;
  }

  async read(urls: string[]): Promise<(number | undefined)[]> {
    return urls.map((url) => this.#times.get(url));
  }

  async save(times: ReadonlyMap<string, number>): Promise<void> {
    for (const [url, t] of times) {
      const later = Math.max(t, this.#times.get(url) ?? t);
      this.#times.delete(url);
      this.#times.set(url, later);
    }
    for (const oldest of this.#times.keys()) {
      if (this.#times.size <= this.#max) return;
      this.#times.delete(oldest);
    }
  }
}

const SAVE = `
for i, key in ipairs(KEYS) do
  local before = tonumber(redis.call('GET', key))
  local t = math.max(tonumber(ARGV[i + 1]), before or -math.huge)
  redis.call('SET', key, string.format('%d', t), 'PX', ARGV[1])
end`;
const MONTH_MS = 30 * 86_400_000;
const NO_PREFIX =
  "give a prefix that no other handler or service has, such as { prefix: 'search:' }; otherwise one would ignore the " +
  'events that another has handled';

interface RedisNewestOptions {
  /**
   * The text with which every key begins, such as `search:`. Each handler of each service needs a prefix of its own. If
   * two handlers shared a prefix, one would ignore the events that the other has handled, as if they were outdated.
   */
  prefix: string;
  /** How long the time of a URL is kept after it was last saved; 30 days by default. */
  rememberMs?: number;
}

/** Stores in Redis, for all processes of a service, the time of the newest handled event of each URL. */
export class RedisNewestStore implements NewestStore {
  readonly #send: SendCommand;
  readonly #prefix: string;
  readonly #rememberMs: number;

  /** Throws TypeError if there is no prefix, or if `send` is no function. */
  constructor(send: SendCommand, options: RedisNewestOptions) {
    // In JavaScript, the options or the prefix can be missing.
    const { prefix, rememberMs = MONTH_MS } = options ?? {};
    if (!prefix) throw new TypeError(NO_PREFIX);
    refuseNoSender(send);
    this.#send = send;
    this.#prefix = `${prefix}newest:`;
    refuseWrongNumber('rememberMs', rememberMs);
    this.#rememberMs = rememberMs;
  }

  async read(urls: string[]): Promise<(number | undefined)[]> {
    if (urls.length === 0) return [];
    const texts = (await this.#send('MGET', ...this.#keys(urls))) as (string | Buffer | null)[];
    return texts.map((text) => (text === null ? undefined : Number(String(text))));
  }

  async save(times: ReadonlyMap<string, number>): Promise<void> {
    if (times.size === 0) return;
    const values = [...times.values()].map(String);
    await this.#send(
      'EVAL',
      SAVE,
      String(times.size),
      ...this.#keys([...times.keys()]),
      String(this.#rememberMs),
      ...values,
    );
  }

  #keys(urls: string[]): [string, ...string[]] {
    return urls.map((url) => this.#prefix + url) as [string, ...string[]];
  }
}
