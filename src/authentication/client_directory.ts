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
    // `ttlResolution: 0` makes the cache read the clock at each use. By default it would set a timer with each reading.
    const age = { ttl: FRESH_MS, ttlResolution: 0, perf: { now: () => clock.monotonicMs() } };
    this.#entries = new LRUCache({ max: MAX_CLIENTS, ...age });
  }

  /** Returns the client if it was found within the last second. */
  cached(token: string): Client | undefined {
    return this.#entries.get(token)?.client;
  }

  /** Resolves with the client as it was within the last second. Throws the errors of `Clients.find`. */
  find(token: string): Promise<Client | undefined> {
    return (this.#entries.get(token) ?? this.#look(token)).lookup;
  }

  /**
   * Resolves with the client as it is now. If the client is cached, reads it from Redis again. Call this before
   * refusing credentials, because the cached client may be outdated. Throws as `find` does.
   */
  findNow(token: string): Promise<Client | undefined> {
    return this.cached(token) ? this.#look(token).lookup : this.find(token);
  }

  /** Makes the next `find` of a client ask Redis, even while another lookup of this client is under way. */
  forget(token: string): void {
    this.#entries.delete(token);
  }

  #look(token: string): Entry {
    // The age of an entry counts from the request to Redis, since the client may be removed before the reply arrives.
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
