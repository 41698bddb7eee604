import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Client, Clients } from './client.ts';

/** Time for which a cached client is used. So a process accepts a removed client for this time at most. */
const FRESH_MS = 1000;
const MAX_CLIENTS = 10_000;

interface Entry {
  lookup: Promise<Client | undefined>;
  client?: Client;
}

/** Caches clients, so that `find` asks Redis for a client at most once a second. Unknown tokens are not cached. */
export class ClientDirectory {
  readonly #clients: Pick<Clients, 'find'>;
  readonly #entries: LRUCache<string, Entry>;

  constructor(clients: Pick<Clients, 'find'>) {
    this.#clients = clients;
    // With `ttlResolution: 0`, the cache reads the clock at each use. By default, it would keep each reading for 1 ms,
    // and set a timer to forget it.
    const age = { ttl: FRESH_MS, ttlResolution: 0, perf: { now: () => clock.monotonicMs() } };
    this.#entries = new LRUCache({ max: MAX_CLIENTS, ...age });
  }

  /** Returns the client if it was found within the last second. */
  cached(token: string): Client | undefined {
    return this.#entries.get(token)?.client;
  }

  /** Resolves with the client, as Redis had it at most a second ago. Throws the errors of `Clients.find`. */
  find(token: string): Promise<Client | undefined> {
    return (this.#entries.get(token) ?? this.#look(token)).lookup;
  }

  /** If a lookup of this client is under way, returns this lookup, which may find an outdated client. */
  underWay(token: string): Promise<Client | undefined> | undefined {
    const entry = this.#entries.get(token);
    return entry?.client ? undefined : entry?.lookup;
  }

  /**
   * Resolves with the client as it is now: neither cached nor found by a lookup that is already under way. Call this
   * before refusing credentials. Throws as `find` does.
   */
  findNow(token: string): Promise<Client | undefined> {
    return this.#look(token).lookup;
  }

  /**
   * Makes the next `find` of a client ask Redis anew, because the cached client, or a lookup under way, may be
   * outdated.
   */
  forget(token: string): void {
    this.#entries.delete(token);
  }

  #look(token: string): Entry {
    // The age of an entry counts from the request, not from the reply, because the reply may be outdated when it
    // arrives.
    const entry: Entry = { lookup: this.#clients.find(token) };
    this.#entries.set(token, entry);
    const forget = () => {
      if (this.#entries.get(token) === entry) this.#entries.delete(token);
    };
    entry.lookup.then((client) => {
      if (client) entry.client = client;
      else forget();
    }, forget);
    return entry;
  }
}
