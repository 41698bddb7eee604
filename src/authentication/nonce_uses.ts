import { Batcher } from '../store/batcher.ts';
import type { Partition } from '../store/partition.ts';

/** How long a nonce is valid. */
export const NONCE_LIFE_MS = 5 * 60_000;
/** How far ahead of this process's idea of Redis's clock a nonce may be: that idea is late by what Redis's answer took. */
export const NONCE_AHEAD_MS = 60_000;
/** How long the uses of a nonce are remembered, from the first on. */
export const NONCE_USES_KEPT_MS = NONCE_LIFE_MS + 2 * NONCE_AHEAD_MS;

/** One script call takes this many uses: some 2 ms of Redis. */
const MAX_USES_PER_CALL = 1000;

/** One `nc` count of a Digest nonce. It authenticates one request only. */
export interface NonceUse {
  /** Identifies the nonce. */
  nonce: string;
  count: number;
}

/** Consumes nonce uses, each once over all processes. */
export class NonceUses {
  readonly #batcher: Batcher<NonceUse, boolean>;

  constructor(store: Pick<Partition, 'run'>) {
    const consume = (uses: NonceUse[]) => store.run('nonce_uses', { keptMs: NONCE_USES_KEPT_MS, uses });
    this.#batcher = new Batcher(consume, { max: MAX_USES_PER_CALL });
  }

  /**
   * Whether the use was new: it is consumed now. False if it was consumed before, and if its count is too high to be remembered.
   * Throws as Partition does; the use may then be consumed or not.
   */
  consume(use: NonceUse): Promise<boolean> {
    return this.#batcher.add(use);
  }
}
