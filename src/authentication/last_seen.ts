import { slicesOf } from '../chunks.ts';
import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/** A process stores the time of a client's last call at most once in this interval. */
const STORED_EVERY_MS = 60_000;
/** A process collects the tokens of calling clients for this time, and then stores all their times together. */
const GATHERED_MS = 5000;
/** Maximum clients in one call of the script `note_seen`. 250 take Redis a quarter of a ms. */
const MAX_CLIENTS_PER_CALL = 250;
const MAX_KNOWN = 10_000;

/** Stores when each client called last, for listings. The calls of the last seconds are lost when the process ends. */
export class LastSeen {
  readonly #control: Partition;
  readonly #log: Log;
  /** For each client, when `note` last queued it for storing, in ms of the monotonic clock. */
  readonly #notedMs = new Map<string, number>();
  #waiting: string[] = [];

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /** Notes that a client is calling now: queues it for `#store`, unless it was queued less than a minute ago. */
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
      // The error is ignored: until these clients call again, listings show when they called before. A call within the
      // same minute does not count, because a client's time is stored once a minute.
      this.#log.debug({ err: error }, 'could not store which clients have called');
    }
  }
}
