import { clock } from '../clock.ts';
import type { Acknowledged, Finished } from './settlement.ts';

/**
 * How long a finished job waits for others to share its call, unless half of those under way are finished. With batches
 * of ten an event then takes 9.2 µs of the worker and 4.9 of Redis, instead of 11.6 and 8.0.
 */
const MAX_WAIT_MS = 1;

interface Ack extends PromiseWithResolvers<Acknowledged> {
  finished: Finished;
}

/** Collects finished jobs, to be acknowledged by one call. */
export class AckGroup {
  #acks: Ack[] = [];
  #sinceMs = 0;

  /** Resolves when the call has been made; rejects if it failed. */
  add(finished: Finished): Promise<Acknowledged> {
    const ack: Ack = { finished, ...Promise.withResolvers<Acknowledged>() };
    if (this.#acks.length === 0) this.#sinceMs = clock.monotonicMs();
    this.#acks.push(ack);
    return ack.promise;
  }

  /** In how many ms the call is due while `busy` jobs are under way; 0: now; undefined: nothing is finished. */
  dueInMs(busy: number): number | undefined {
    if (this.#acks.length === 0) return undefined;
    if (this.#acks.length * 2 >= busy) return 0;
    return Math.max(0, Math.ceil(this.#sinceMs + MAX_WAIT_MS - clock.monotonicMs()));
  }

  /** Hands over what was collected, and starts again. */
  take(): Ack[] {
    const acks = this.#acks;
    this.#acks = [];
    return acks;
  }
}
