import { randomUUID } from 'node:crypto';
import { requestOf } from './calls.ts';
import type { Pending } from './pending.ts';
import { Attempts } from './retrying.ts';
import type { Transport } from './transport.ts';

/**
 * Events of one topic that are sent in one request. Every attempt has the same idempotency key and the same body, so a
 * repeat stores nothing twice. An event stays in the body even if its caller gives it up.
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

  /** Sends the request until the events are stored. Throws an error if another attempt could not help. */
  async send(transport: Transport): Promise<void> {
    const to = requestOf('POST /topics/:name', { params: { name: this.#events[0]?.topic } });
    const body = `[${this.#events.map(({ text }) => text).join(',')}]`;
    const request = { ...to, body, key: randomUUID() };
    const { signal } = this.#givenUp;
    const send = () => transport.send(request, signal);
    await this.attempts.make({ send, request, signal, isRepeatable: true });
  }

  /**
   * Must be called when a caller of `publish` gives up an event of this group. The request is aborted when all are
   * given up.
   */
  leave(): void {
    if (--this.#wanted === 0) this.#givenUp.abort();
  }
}
