import { randomUUID } from 'node:crypto';
import type { Pending } from './pending.ts';
import { Attempts } from './retrying.ts';
import type { Transport } from './transport.ts';

/**
 * Events of one topic that ride in one request. The request keeps its idempotency key and its body however often it is
 * sent, so that a repeat stores nothing twice. Events that were given up meanwhile stay in it for the same reason.
 */
export class Group {
  readonly attempts = new Attempts();
  readonly #events: readonly Pending[];
  #wanted: number;
  readonly #givenUp = new AbortController();

  constructor(events: readonly Pending[]) {
    this.#events = events;
    this.#wanted = events.length;
  }

  /** Resolves when the events are stored. Throws the first error that another attempt could not mend. */
  async send(transport: Transport): Promise<void> {
    const path = `/topics/${encodeURIComponent(this.#events[0]?.topic ?? '')}`;
    const body = `[${this.#events.map(({ text }) => text).join(',')}]`;
    const request = { method: 'POST', path, body, key: randomUUID() };
    const { signal } = this.#givenUp;
    await this.attempts.make({ send: () => transport.send(request, signal), signal, isRepeatable: true });
  }

  /** Call it for each event that is given up. When all are, it aborts the request. */
  leave(): void {
    if (--this.#wanted === 0) this.#givenUp.abort();
  }
}
