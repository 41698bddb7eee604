import { randomUUID } from 'node:crypto';
import { requestOf } from './calls.ts';
import type { Pending } from './pending.ts';
import { Attempts } from './retrying.ts';
import type { Transport } from './transport.ts';

/**
 * Events of one topic that are sent in one request. Once the bus may have stored them, the idempotency key and the body
 * stay the same, so that a repeat stores nothing twice. The body then keeps even events whose callers no longer wait.
 */
export class Group {
  readonly attempts = new Attempts();
  readonly #abort = new AbortController();
  #events: readonly Pending[];
  #body = '';
  #key = '';

  constructor(events: readonly Pending[]) {
    this.#events = events;
  }

  /** The events in the body of the last attempt. */
  get events(): readonly Pending[] {
    return this.#events;
  }

  /** Sends the request until the events are stored. Throws the last error if another attempt would not help. */
  async send(transport: Transport): Promise<void> {
    const to = requestOf('POST /topics/:name', { params: { name: this.#events[0]?.topic } });
    const { signal } = this.#abort;
    this.#write();
    const send = () => {
      this.#leaveOut();
      return transport.send({ ...to, body: this.#body, key: this.#key }, signal);
    };
    await this.attempts.make({ send, request: to, signal, isRepeatable: true });
  }

  /** Called when an event is given up. Aborts the request when no caller waits for any of its events. */
  giveUp(): void {
    if (this.#events.every((event) => event.isGivenUp)) this.#abort.abort();
  }

  /**
   * Called before each attempt. Removes from the body the events that were given up, because their callers were told
   * that these events are not stored. Does nothing if the bus may have stored them in an earlier attempt.
   */
  #leaveOut(): void {
    if (this.attempts.hasUnknownEnd || !this.#events.some((event) => event.isGivenUp)) return;
    this.#events = this.#events.filter((event) => !event.isGivenUp);
    this.#write();
  }

  #write(): void {
    this.#body = `[${this.#events.map(({ text }) => text).join(',')}]`;
    this.#key = randomUUID();
  }
}
