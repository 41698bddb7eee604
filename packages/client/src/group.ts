import { randomUUID } from 'node:crypto';
import { requestOf } from './calls.ts';
import type { Pending } from './pending.ts';
import { Attempts } from './retrying.ts';
import type { Transport } from './transport.ts';

/**
 * Events of one topic that are sent in one request. Every attempt has the same idempotency key and body, so a repeat
 * stores nothing twice. For this, an event stays in the body even if its caller no longer waits (time limit or signal).
 */
export class Group {
  readonly attempts = new Attempts();
  readonly givenUp = new Set<Pending>();
  readonly #events: readonly Pending[];
  readonly #abort = new AbortController();

  constructor(events: readonly Pending[]) {
    this.#events = events;
  }

  /** Sends the request until the events are stored. Throws the last error if another attempt would not help. */
  async send(transport: Transport): Promise<void> {
    const to = requestOf('POST /topics/:name', { params: { name: this.#events[0]?.topic } });
    const body = `[${this.#events.map(({ text }) => text).join(',')}]`;
    const request = { ...to, body, key: randomUUID() };
    const { signal } = this.#abort;
    const send = () => transport.send(request, signal);
    await this.attempts.make({ send, request, signal, isRepeatable: true });
  }

  /**
   * Notes that the caller of an event's `publish` no longer waits, because of its time limit or signal. Aborts the
   * request when no caller waits for any of its events.
   */
  giveUp(event: Pending): void {
    this.givenUp.add(event);
    if (this.givenUp.size === this.#events.length) this.#abort.abort();
  }
}
