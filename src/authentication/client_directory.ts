import { clock } from '../clock.ts';
import type { Client, Clients } from './client.ts';

/** How long a client is remembered: a revoked one is refused everywhere within a second. */
const FRESH_MS = 1000;
const MAX_ENTRIES = 10_000;

interface Entry {
  freshUntilMs: number;
  lookup: Promise<Client | undefined>;
  /** The result of the lookup, for callers that do not wait; undefined while it is under way. */
  client?: Client;
}

/**
 * Finds clients for every request, asking Redis for each at most once a second.
 * Only clients that exist are remembered, and of these the 10,000 looked up last.
 */
export class ClientDirectory {
  readonly #clients: Pick<Clients, 'find'>;
  readonly #nowMs: () => number;
  /** In the order of their lookups, so the stalest come first. */
  readonly #entries = new Map<string, Entry>();

  constructor(clients: Pick<Clients, 'find'>, nowMs: () => number = clock.monotonicMs) {
    this.#clients = clients;
    this.#nowMs = nowMs;
  }

  /** The client, if it was found within the last second. Does not ask Redis. */
  known(token: string): Client | undefined {
    const entry = this.#entries.get(token);
    return entry && this.#nowMs() < entry.freshUntilMs ? entry.client : undefined;
  }

  /** The client, as it was at some moment of the last second. Throws what Clients.find throws, and asks again the next time. */
  find(token: string): Promise<Client | undefined> {
    const nowMs = this.#nowMs();
    const entry = this.#entries.get(token);
    if (entry && nowMs < entry.freshUntilMs) return entry.lookup;
    this.#entries.delete(token);
    this.#makeRoom(nowMs);
    return this.#ask(token, nowMs).lookup;
  }

  /**
   * The client as it is now, for credentials that are wrong by what `known` gives: a secret may be new. Joins a lookup that is
   * under way. Throws as `find` does.
   */
  ask(token: string): Promise<Client | undefined> {
    const entry = this.#entries.get(token);
    if (entry?.client) this.#entries.delete(token);
    return this.find(token);
  }

  #ask(token: string, nowMs: number): Entry {
    // Fresh from the question on, not from the reply: the client may have been removed while the reply travelled.
    const entry: Entry = { freshUntilMs: nowMs + FRESH_MS, lookup: this.#clients.find(token) };
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

  #makeRoom(nowMs: number): void {
    for (const [token, entry] of this.#entries) {
      if (nowMs < entry.freshUntilMs && this.#entries.size < MAX_ENTRIES) return;
      this.#entries.delete(token);
    }
  }
}
