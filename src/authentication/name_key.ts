import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const KEY_BYTES = 32;
/**
 * Interval at which a process asks Redis again for the HMAC key of public names (the names that stand for clients in
 * figures and logs). The interval may be long, because the key changes only if Redis loses it.
 */
const ASK_EVERY_MS = 60_000;

/**
 * The random key of the HMACs in public names (see PublicNames). All processes of the bus share the key through Redis.
 */
export class NameKey {
  readonly #control: Partition;
  readonly #monotonicMs: () => number;
  #key: Buffer | undefined;
  #askAgainAtMs = 0;
  #loading: Promise<Buffer> | undefined;

  constructor(control: Partition, monotonicMs: () => number = clock.monotonicMs) {
    this.#control = control;
    this.#monotonicMs = monotonicMs;
  }

  /**
   * Resolves with the key. If Redis has none, a new one is stored. Throws StorageUnavailable, unless this process knows
   * the key already.
   */
  async load(): Promise<Buffer> {
    if (this.#key && this.#monotonicMs() < this.#askAgainAtMs) return this.#key;
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<Buffer> {
    this.#askAgainAtMs = this.#monotonicMs() + ASK_EVERY_MS;
    // The script stores the given key only if Redis has none. So if Redis has lost the key, it gets back the key that
    // this process knows. Clients then keep the names under which they appear in figures and logs.
    const call = this.#control.run('name_key', { key: this.#key ?? randomBytes(KEY_BYTES) });
    const known = this.#key;
    this.#key = known ? await call.catch(() => known) : await call;
    return this.#key;
  }
}
