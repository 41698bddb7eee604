import { randomBytes } from 'node:crypto';
import { clock } from '../clock.ts';
import { sharing } from '../sharing.ts';
import type { Partition } from '../store/partition.ts';

const KEY_BYTES = 32;
/** Interval at which a process asks Redis for the key again. It may be long: the key changes only if Redis loses it. */
const ASK_EVERY_MS = 60_000;

/** The random key of the HMACs in public names (see PublicNames). All processes share it through Redis. */
export class NameKey {
  readonly #control: Partition;
  #key: Buffer | undefined;
  #askAgainAtMs = 0;
  readonly #sharedLoad = sharing(() => this.#load());

  constructor(control: Partition) {
    this.#control = control;
  }

  /** Resolves with the key. Throws StorageUnavailable if this process has no key yet, and Redis is away. */
  async load(): Promise<Buffer> {
    if (this.#key && clock.monotonicMs() < this.#askAgainAtMs) return this.#key;
    return this.#sharedLoad();
  }

  async #load(): Promise<Buffer> {
    this.#askAgainAtMs = clock.monotonicMs() + ASK_EVERY_MS;
    // The script returns the key in Redis, and stores the given one only if there is none. So a Redis that has lost the
    // key gets it back from this process, and public names stay the same.
    const call = this.#control.run('name_key', { key: this.#key ?? randomBytes(KEY_BYTES) });
    const known = this.#key;
    this.#key = known ? await call.catch(() => known) : await call;
    return this.#key;
  }
}
