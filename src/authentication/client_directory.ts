import { LRUCache } from 'lru-cache';
import { clock } from '../clock.ts';
import type { Client, Clients } from './client.ts';

/** How long a client that was found may be used: a revoked client is refused everywhere within a second. */
const FRESH_MS = 1000;
const MAX_CLIENTS = 10_000;

interface Entry {
  lookup: Promise<Client | undefined>;
  /** The client that the lookup found; undefined while it is under way. */
  client?: Client;
}

/** Finds clients for every request, and asks Redis for each at most once a second. Unknown tokens are not remembered. */
export class ClientDirectory {
  readonly #clients: Pick<Clients, 'find'>;
  readonly #entries: LRUCache<string, Entry>;

  constructor(clients: Pick<Clients, 'find'>, nowMs: () => number = clock.monotonicMs) {
    this.#clients = clients;
    // Without a resolution of 0 the cache reads the clock once a millisecond, by a timer.
    const age = { ttl: FRESH_MS, ttlResolution: 0, perf: { now: nowMs } };
    this.#entries = new LRUCache({ max: MAX_CLIENTS, ...age });
  }

  /** The client if it was looked up within the last second. Asks nobody. */
  known(token: string): Client | undefined {
    return this.#entries.get(token)?.client;
  }

  /** The client as it was at some moment of the last second. Throws as Clients.find does; a failure is not remembered. */
  find(token: string): Promise<Client | undefined> {
    return (this.#entries.get(token) ?? this.#look(token)).lookup;
  }

  /**
   * The client as it is now, for credentials that `known` does not accept: they may be new. Joins a lookup that is under way.
   * Throws as `find` does.
   */
  ask(token: string): Promise<Client | undefined> {
    if (this.known(token)) this.#entries.delete(token);
    return this.find(token);
  }

  #look(token: string): Entry {
    // Its age counts from the question, not from the answer: the client may have been removed while the answer travelled.
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
