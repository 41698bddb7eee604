import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import { sharing } from '../sharing.ts';
import type { Partition } from '../store/partition.ts';

const HOUR_MS = 3_600_000;
const KEPT_HOURS = 24;
const KEY_BYTES = 32;
/**
 * Interval at which a process fetches the keys. Each reply includes the key of the next hour, so a process has that key
 * before the hour begins.
 */
const ASK_EVERY_MS = 60_000;
const RETRY_MS = 1000;
/**
 * An unknown nonce makes this process fetch the keys, unless the last fetch ended less than this time ago. Otherwise
 * strangers could keep Redis busy with nonces that they made up.
 */
const MIN_REFRESH_MS = 100;

export interface NonceKey {
  readonly hour: number;
  readonly key: Buffer;
  /**
   * True once this process knows that another key has replaced this one. Nonces that this key signed are then refused
   * as old.
   */
  replaced: boolean;
}

/**
 * The random keys that sign Digest nonces, one for each hour. All processes share them through Redis. After a restart
 * or failover, Redis may have forgotten which nonces were used. A script then replaces the keys. So the bus
 * refuses every nonce that an old key signed, and nobody can send a recorded request again.
 */
export class NonceKeys {
  readonly #control: Partition;
  #keys: readonly NonceKey[] = [];
  /**
   * The value of `Partition.connections` (connections made so far) when the keys were fetched. A higher value means
   * that this process has reconnected, perhaps to a Redis with other keys, and must fetch the keys again.
   */
  #connection: number | undefined;
  /** The clock of Redis minus the monotonic clock of this process. */
  #offsetMs = 0;
  #askAgainAtMs = 0;
  /** When the last fetch ended, even if it failed. */
  #triedAtMs = Number.NEGATIVE_INFINITY;
  /** Fetches the keys. Throws StorageUnavailable. */
  readonly load = sharing(() => this.#load());

  constructor(control: Partition) {
    this.#control = control;
  }

  /** Returns the time by Redis's clock. It is meaningless before the first `load`. */
  nowMs(): number {
    return clock.monotonicMs() + this.#offsetMs;
  }

  /**
   * Returns the key for new nonces. Returns undefined if `load` must be called first: at the start, after a
   * reconnection (Redis may have another key then), or if this process lacks the key of the present hour.
   */
  current(): Buffer | undefined {
    if (this.#connection !== this.#control.connections) return undefined;
    // Errors are ignored: the known keys suffice for about another hour, and a later call tries again.
    if (clock.monotonicMs() >= this.#askAgainAtMs) this.load().catch(() => {});
    const hour = Math.floor(this.nowMs() / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && !each.replaced)?.key;
  }

  /**
   * Returns the key that signed a nonce issued at this time. Returns undefined if this process does not have the key.
   * Keys are kept for a day.
   */
  find(issuedMs: number, signed: (key: Buffer) => boolean): NonceKey | undefined {
    const hour = Math.floor(issuedMs / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && signed(each.key));
  }

  /**
   * Fetches the keys, but not within MIN_REFRESH_MS after the last fetch. Waits for a fetch that is under way. Call
   * this for an unknown nonce: another process may have signed it with a key that this process does not have yet.
   */
  async refresh(): Promise<void> {
    if (clock.monotonicMs() >= this.#triedAtMs + MIN_REFRESH_MS) await this.load();
  }

  async #load(): Promise<void> {
    this.#askAgainAtMs = clock.monotonicMs() + RETRY_MS;
    try {
      await this.#fetch();
    } finally {
      this.#triedAtMs = clock.monotonicMs();
    }
  }

  async #fetch(): Promise<void> {
    const connection = this.#control.connections;
    const { nowMs, keys } = await this.#control.run('nonce_keys', {
      keyOfThisHour: randomBytes(KEY_BYTES),
      keyOfNextHour: randomBytes(KEY_BYTES),
    });
    const oldestHour = Math.floor(nowMs / HOUR_MS) - KEPT_HOURS;
    const known = this.#keys.filter(({ hour }) => hour >= oldestHour);
    // A known key that Redis lacks counts as replaced, so that its nonces are refused. Redis must have lost data, and
    // may also have forgotten which nonces were used. If they were accepted, somebody could send a recorded request
    // again.
    for (const each of known) each.replaced = keys.find(({ key }) => key.equals(each.key))?.replaced ?? true;
    this.#keys = [...known, ...keys.filter(({ key }) => !known.some((each) => each.key.equals(key)))];
    this.#connection = connection;
    this.#offsetMs = nowMs - clock.monotonicMs();
    this.#askAgainAtMs = clock.monotonicMs() + ASK_EVERY_MS;
  }
}
