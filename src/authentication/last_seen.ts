import { slicesOf } from '../chunks.ts';
import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/** For each client, a process stores at most once in this time that the client has called. */
const STORED_EVERY_MS = 60_000;
/** Time for which the tokens of calling clients are collected, so that one script call stores many of them. */
const GATHERED_MS = 5000;
/** Maximum clients in one call of the script `note_seen`. A call with this many takes Redis a quarter of a ms. */
const MAX_CLIENTS_PER_CALL = 250;
const MAX_KNOWN = 10_000;

/**
 * Stores when each client called last, for listings. The calls of the last seconds are lost if the process ends before
 * they are stored.
 */
export class LastSeen {
  readonly #control: Partition;
  readonly #log: Log;
  /** For each client, when `note` last queued it for storing. In ms, by the monotonic clock. */
  readonly #notedMs = new Map<string, number>();
  #waiting: string[] = [];

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /**
   * Queues a client that is calling now. The time of the call is stored within seconds. Does nothing if this process
   * has queued the client less than a minute ago.
   */
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
      for (const slice of slicesOf(tokens, MAX_CLIENTS_PER_CALL))
        await this.#control.run('note_seen', { tokens: slice });
    } catch (error) {
      // The error does no lasting harm: if the client goes on calling, it is queued again a minute later.
      this.#log.debug({ err: error }, 'could not store which clients have called');
    }
  }
}
