import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const KEY_BYTES = 32;
/**
 * Interval at which a process asks Redis again for the key of public names. The interval may be long, because the key
 * changes only if Redis loses it.
 */
const FRESH_MS = 60_000;

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
    this.#askAgainAtMs = this.#monotonicMs() + FRESH_MS;
    // If Redis has lost the key, it gets back the key that this process knows, so that public names stay the same.
    const call = this.#control.run('name_key', { key: this.#key ?? randomBytes(KEY_BYTES) });
    const known = this.#key;
    this.#key = known ? await call.catch(() => known) : await call;
    return this.#key;
  }
}
