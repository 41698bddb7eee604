import { randomUUID } from 'node:crypto';
import { requestOf } from './calls.ts';
import type { Pending } from './pending.ts';
import { Attempts, type sleepFor } from './retrying.ts';
import type { Transport } from './transport.ts';

/**
 * Events of one topic that are sent in one request. If an attempt may have stored them, all later attempts have the
 * same idempotency key and body, so that the bus stores nothing twice. The body then keeps even events whose callers no
 * longer wait.
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

  /**
   * Sends the request until the events are stored, with a `rest` before each further attempt. Throws the last error if
   * another attempt would not help.
   */
  async send(transport: Transport, rest: typeof sleepFor): Promise<void> {
    const to = requestOf('POST /topics/:name', { params: { name: this.#events[0]?.topic } });
    const { signal } = this.#abort;
    this.#write();
    const send = () => {
      this.#leaveOut();
      return transport.send({ ...to, body: this.#body, key: this.#key }, signal);
    };
    await this.attempts.make({ send, request: to, signal, isRepeatable: true, rest });
  }

  /**
   * Called when a caller of `publish` no longer waits for one of these events. Aborts the request if nobody waits for
   * any of the events.
   */
  giveUp(): void {
    if (this.#events.every((event) => event.isGivenUp)) this.#abort.abort();
  }

  /**
   * Called before each attempt. Removes the events whose callers no longer wait, because the callers may have been told
   * that these events are not stored. Removes nothing if an earlier attempt may have stored the events.
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
