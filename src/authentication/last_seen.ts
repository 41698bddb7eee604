import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/** Minimum time after which this process stores another call of the same client. */
const STORED_EVERY_MS = 60_000;
/** Time for which the tokens of calling clients are collected, so that one script call notes many clients. */
const GATHERED_MS = 5000;
/** Maximum clients that one script call notes as seen. The call takes Redis a quarter of a ms. */
const MAX_AT_ONCE = 250;
const MAX_KNOWN = 10_000;

/**
 * Stores when each client called last, for listings. The calls of the last seconds are lost if the process ends before
 * they are stored.
 */
export class LastSeen {
  readonly #control: Partition;
  readonly #log: Log;
  /** For each client, the time of the monotonic clock at which the client was last noted. */
  readonly #notedMs = new Map<string, number>();
  #waiting: string[] = [];

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /** Notes that a client is calling now. Does nothing if the client was noted less than a minute ago. */
  note(token: string): void {
    const nowMs = clock.monotonicMs();
    if (nowMs - (this.#notedMs.get(token) ?? Number.NEGATIVE_INFINITY) < STORED_EVERY_MS) return;
    if (this.#notedMs.size >= MAX_KNOWN) this.#notedMs.clear();
    this.#notedMs.set(token, nowMs);
    if (this.#waiting.push(token) === 1) setTimeout(() => this.#store(), GATHERED_MS).unref();
  }

  async #store(): Promise<void> {
    const tokens = this.#waiting;
    this.#waiting = [];
    try {
      for (let from = 0; from < tokens.length; from += MAX_AT_ONCE)
        await this.#control.run('note_seen', { tokens: tokens.slice(from, from + MAX_AT_ONCE) });
    } catch (error) {
      // The error does no lasting harm: a client that goes on calling is noted again a minute later.
      this.#log.debug({ err: error }, 'could not store which clients have called');
    }
  }
}
