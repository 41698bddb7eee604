import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Partition } from '../store/partition.ts';

const KEY_BYTES = 32;
/** Interval between requests for the key, which changes only if Redis has lost it. */
const FRESH_MS = 60_000;

/** The random key of public names. All processes of the bus share it through Redis. */
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

  /** Resolves with the key; Redis stores one if it has none. Throws as Partition does, unless the key is known. */
  async load(): Promise<Buffer> {
    if (this.#key && this.#monotonicMs() < this.#askAgainAtMs) return this.#key;
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<Buffer> {
    this.#askAgainAtMs = this.#monotonicMs() + FRESH_MS;
    // The known key goes back to a Redis that has lost it, so that names stay the same.
    const call = this.#control.run('name_key', { key: this.#key ?? randomBytes(KEY_BYTES) });
    const known = this.#key;
    this.#key = known ? await call.catch(() => known) : await call;
    return this.#key;
  }
}
