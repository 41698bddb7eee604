import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const HOUR_MS = 3_600_000;
const KEY_BYTES = 32;
/** Interval between requests for the keys. It can be long, as a key is fetched up to an hour before its use. */
const FRESH_MS = 60_000;
const PAUSE_MS = 1000;

/** The random keys that sign nonces, one per hour. All processes share them through Redis. */
export class NonceKeys {
  readonly #control: Partition;
  readonly #monotonicMs: () => number;
  #keys: ReadonlyMap<number, Buffer> = new Map();
  /** The clock of Redis minus the monotonic clock of this process. */
  #offsetMs = 0;
  #askAgainAtMs = 0;
  #loading: Promise<void> | undefined;

  constructor(control: Partition, monotonicMs: () => number = clock.monotonicMs) {
    this.#control = control;
    this.#monotonicMs = monotonicMs;
  }

  /** Returns the time of Redis; meaningless before the first `load`. */
  nowMs(): number {
    return this.#monotonicMs() + this.#offsetMs;
  }

  /** Returns the key for new nonces; undefined if no `load` succeeded for over an hour. */
  current(): Buffer | undefined {
    // A failure is ignored: the known keys last for an hour, and the next call after a second tries again.
    if (this.#monotonicMs() >= this.#askAgainAtMs) this.load().catch(() => {});
    return this.of(this.nowMs());
  }

  /** Returns the key of nonces issued at that time; undefined after a day. */
  of(issuedMs: number): Buffer | undefined {
    return this.#keys.get(Math.floor(issuedMs / HOUR_MS));
  }

  /** Fetches the keys; Redis stores new ones if they are missing. Throws as Partition does. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    this.#askAgainAtMs = this.#monotonicMs() + PAUSE_MS;
    const { nowMs, keys } = await this.#control.run('nonce_keys', {
      keyOfThisHour: randomBytes(KEY_BYTES),
      keyOfNextHour: randomBytes(KEY_BYTES),
      knownKeys: Array.from(this.#keys, ([hour, key]) => ({ hour, key })),
    });
    this.#keys = new Map(keys.map(({ hour, key }) => [hour, key]));
    this.#offsetMs = nowMs - this.#monotonicMs();
    this.#askAgainAtMs = this.#monotonicMs() + FRESH_MS;
  }
}
