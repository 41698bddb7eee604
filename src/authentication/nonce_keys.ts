import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const HOUR_MS = 3_600_000;
const KEPT_HOURS = 24;
const KEY_BYTES = 32;
/** Interval between requests for the keys. It can be long, as a key is fetched up to an hour before its use. */
const FRESH_MS = 60_000;
const PAUSE_MS = 1000;
/** Minimum time between fetches that strangers can cause by sending unknown nonces. */
const MOMENT_MS = 100;

export interface NonceKey {
  readonly hour: number;
  readonly key: Buffer;
  /** True once this process knows that the key was replaced. Nonces that it signed are then old, not unknown. */
  replaced: boolean;
}

/**
 * The random keys that sign Digest nonces, one per hour. All processes share them through Redis. After a restart or
 * failover, Redis may have forgotten which nonces were used, so its scripts replace the keys: no nonce signed before
 * can be used again.
 */
export class NonceKeys {
  readonly #control: Partition;
  readonly #monotonicMs: () => number;
  #keys: readonly NonceKey[] = [];
  /** Number of the Redis connection on which the keys were fetched. */
  #connection: number | undefined;
  /** The clock of Redis minus the monotonic clock of this process. */
  #offsetMs = 0;
  #askAgainAtMs = 0;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(control: Partition, monotonicMs: () => number = clock.monotonicMs) {
    this.#control = control;
    this.#monotonicMs = monotonicMs;
  }

  /** Returns the time of Redis; meaningless before the first `load`. */
  nowMs(): number {
    return this.#monotonicMs() + this.#offsetMs;
  }

  /**
   * Returns the key for new nonces. Returns undefined before the first `load`, after an hour without a
   * successful one, and after a reconnection to Redis, which may have another key.
   */
  current(): Buffer | undefined {
    if (this.#connection !== this.#control.connections) return undefined;
    // A failure is ignored: the known keys last for an hour, and the next call after a second tries again.
    if (this.#monotonicMs() >= this.#askAgainAtMs) this.load().catch(() => {});
    const hour = Math.floor(this.nowMs() / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && !each.replaced)?.key;
  }

  /**
   * Returns the key that signed a nonce of this time. `signed` tells whether a key signed it. Returns
   * undefined if no key did, or if the nonce is more than a day old.
   */
  find(issuedMs: number, signed: (key: Buffer) => boolean): NonceKey | undefined {
    const hour = Math.floor(issuedMs / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && signed(each.key));
  }

  /** Fetches the keys; Redis stores new ones if they are missing. Throws as Partition does. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  /**
   * Fetches the keys, but not more often than every MOMENT_MS. Called for an unknown nonce, which another
   * process may have signed with a new key.
   */
  async refresh(): Promise<void> {
    if (this.#monotonicMs() >= this.#triedAtMs + MOMENT_MS) await this.load();
  }

  async #load(): Promise<void> {
    this.#triedAtMs = this.#monotonicMs();
    this.#askAgainAtMs = this.#triedAtMs + PAUSE_MS;
    const connection = this.#control.connections;
    const { nowMs, keys } = await this.#control.run('nonce_keys', {
      keyOfThisHour: randomBytes(KEY_BYTES),
      keyOfNextHour: randomBytes(KEY_BYTES),
    });
    const oldestHour = Math.floor(nowMs / HOUR_MS) - KEPT_HOURS;
    const known = this.#keys.filter(({ hour }) => hour >= oldestHour);
    // A key that Redis has lost is replaced too: the uses of its nonces are lost with it.
    for (const each of known) each.replaced = keys.find(({ key }) => key.equals(each.key))?.replaced ?? true;
    this.#keys = [...known, ...keys.filter(({ key }) => !known.some((each) => each.key.equals(key)))];
    this.#connection = connection;
    this.#offsetMs = nowMs - this.#monotonicMs();
    this.#askAgainAtMs = this.#monotonicMs() + FRESH_MS;
  }
}
