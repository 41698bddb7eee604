import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const HOUR_MS = 3_600_000;
const KEPT_HOURS = 24;
const KEY_BYTES = 32;
/**
 * Interval at which a process asks Redis for the keys again. The interval may be long, because each reply has the key
 * of the next hour too. So a process has the key of an hour when that hour begins.
 */
const ASK_EVERY_MS = 60_000;
const RETRY_MS = 1000;
/**
 * Minimum time between two fetches of the keys because of unknown nonces. Without it, strangers could cause any number
 * of fetches by sending nonces that they made up.
 */
const MOMENT_MS = 100;

export interface NonceKey {
  readonly hour: number;
  readonly key: Buffer;
  /**
   * True once this process knows that another key has replaced this one, because Redis may have forgotten which nonces
   * were used. A nonce signed with a replaced key is reported as old, not as unknown.
   */
  replaced: boolean;
}

/**
 * The random keys that sign Digest nonces, one for each hour. All processes share them through Redis. After a restart
 * or failover, Redis may have forgotten which nonces were used. Scripts then replace the keys, so that no older nonce
 * can be used again.
 */
export class NonceKeys {
  readonly #control: Partition;
  readonly #monotonicMs: () => number;
  #keys: readonly NonceKey[] = [];
  /**
   * The value of `Partition.connections` when the keys were fetched. If that count of connections has grown since, the
   * process has reconnected, and Redis may have other keys.
   */
  #connection: number | undefined;
  /**
   * The clock of Redis minus the monotonic clock of this process. It is needed because nonces have times by Redis's
   * clock.
   */
  #offsetMs = 0;
  #askAgainAtMs = 0;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(control: Partition, monotonicMs: () => number = clock.monotonicMs) {
    this.#control = control;
    this.#monotonicMs = monotonicMs;
  }

  /** Returns the time by Redis's clock. It is meaningless before the first `load`. */
  nowMs(): number {
    return this.#monotonicMs() + this.#offsetMs;
  }

  /**
   * Returns the key for new nonces. Returns undefined before the first `load`, after an hour without a successful
   * `load`, and after a reconnection to Redis, which may then have another key.
   */
  current(): Buffer | undefined {
    if (this.#connection !== this.#control.connections) return undefined;
    // Errors are ignored: the known keys are good for an hour, and a later call tries again.
    if (this.#monotonicMs() >= this.#askAgainAtMs) this.load().catch(() => {});
    const hour = Math.floor(this.nowMs() / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && !each.replaced)?.key;
  }

  /**
   * Returns the key that signed a nonce issued at `issuedMs`: the key for which `signed` returns true. Returns
   * undefined if no known key has signed the nonce, or if the nonce is more than a day old.
   */
  find(issuedMs: number, signed: (key: Buffer) => boolean): NonceKey | undefined {
    const hour = Math.floor(issuedMs / HOUR_MS);
    return this.#keys.find((each) => each.hour === hour && signed(each.key));
  }

  /** Fetches the keys. If they are missing, Redis stores new ones. Throws StorageUnavailable. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  /**
   * Fetches the keys, but at most once in MOMENT_MS. Call this for an unknown nonce, which another process may have
   * signed with a new key.
   */
  async refresh(): Promise<void> {
    if (this.#monotonicMs() >= this.#triedAtMs + MOMENT_MS) await this.load();
  }

  async #load(): Promise<void> {
    this.#triedAtMs = this.#monotonicMs();
    this.#askAgainAtMs = this.#triedAtMs + RETRY_MS;
    const connection = this.#control.connections;
    const { nowMs, keys } = await this.#control.run('nonce_keys', {
      keyOfThisHour: randomBytes(KEY_BYTES),
      keyOfNextHour: randomBytes(KEY_BYTES),
    });
    const oldestHour = Math.floor(nowMs / HOUR_MS) - KEPT_HOURS;
    const known = this.#keys.filter(({ hour }) => hour >= oldestHour);
    // If Redis has lost a key, it has also forgotten which nonces of the key were used. So the key is treated as
    // replaced, and its nonces are refused as too old.
    for (const each of known) each.replaced = keys.find(({ key }) => key.equals(each.key))?.replaced ?? true;
    this.#keys = [...known, ...keys.filter(({ key }) => !known.some((each) => each.key.equals(key)))];
    this.#connection = connection;
    this.#offsetMs = nowMs - this.#monotonicMs();
    this.#askAgainAtMs = this.#monotonicMs() + ASK_EVERY_MS;
  }
}
