import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const HOUR_MS = 3_600_000;
const KEY_BYTES = 32;
/** How often to ask for the keys. The next hour's key comes an hour early, so there is time for failures. */
const FRESH_MS = 60_000;
/** The pause after a failed attempt. */
const PAUSE_MS = 1000;

/** The keys that sign nonces: random, one an hour, shared by all processes through Redis; so is the clock. */
export class NonceKeys {
  readonly #store: Partition;
  readonly #monotonicMs: () => number;
  #keys: ReadonlyMap<number, Buffer> = new Map();
  /** Redis's clock less ours. */
  #offsetMs = 0;
  #askAgainAtMs = 0;
  #loading: Promise<void> | undefined;

  constructor(store: Partition, monotonicMs: () => number = clock.monotonicMs) {
    this.#store = store;
    this.#monotonicMs = monotonicMs;
  }

  /** The time by Redis's clock; meaningless until there is a key. */
  nowMs(): number {
    return this.#monotonicMs() + this.#offsetMs;
  }

  /** The key for nonces issued now; undefined before the first `load`, or when none succeeded for over an hour. */
  current(): Buffer | undefined {
    // A failure is ignored: the known keys last for an hour, and a call after a second asks again.
    if (this.#monotonicMs() >= this.#askAgainAtMs) this.load().catch(() => {});
    return this.of(this.nowMs());
  }

  /** The key of nonces issued at that time; undefined if that is more than a day ago. */
  of(issuedMs: number): Buffer | undefined {
    return this.#keys.get(Math.floor(issuedMs / HOUR_MS));
  }

  /** Gets the keys from Redis, and makes missing ones. Throws as Partition does; the known keys stay then. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    this.#askAgainAtMs = this.#monotonicMs() + PAUSE_MS;
    const { nowMs, keys } = await this.#store.run('nonce_keys', {
      keyOfThisHour: randomBytes(KEY_BYTES),
      keyOfNextHour: randomBytes(KEY_BYTES),
      knownKeys: Array.from(this.#keys, ([hour, key]) => ({ hour, key })),
    });
    this.#keys = new Map(keys.map(({ hour, key }) => [hour, key]));
    this.#offsetMs = nowMs - this.#monotonicMs();
    this.#askAgainAtMs = this.#monotonicMs() + FRESH_MS;
  }
}
