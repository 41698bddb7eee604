import { Batcher } from '../store/batcher.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';

/** Time for which a nonce is valid. */
export const NONCE_LIFE_MS = 5 * 60_000;
/**
 * Maximum time by which a nonce may be ahead of this process's estimate of the clock of Redis. The estimate
 * is late by the time that the answer of Redis took.
 */
export const NONCE_AHEAD_MS = 60_000;
/** Time for which Redis remembers the uses of a nonce, from the first use. */
const NONCE_USES_KEPT_MS = NONCE_LIFE_MS + 2 * NONCE_AHEAD_MS;

/** Maximum uses per script call; 1000 take Redis about 2 ms. */
const MAX_USES_PER_CALL = 1000;

/**
 * One count (`nc`) of a Digest nonce. Each authenticates a single request. `nonce` identifies the nonce, and `key`,
 * the key of `hour`, signed it.
 */
export type NonceUse = Arguments<'nonce_uses'>['uses'][number];

/**
 * `repeated`: the use was consumed before, or its count is too high to be stored. `replaced`: the key has been
 * replaced, since Redis may have lost the uses of its nonces.
 */
export type NonceUseOutcome = Reply<'nonce_uses'>[number];

/** Consumes each nonce use once over all processes. */
export class NonceUses {
  readonly #batcher: Batcher<NonceUse, NonceUseOutcome>;

  constructor(control: Pick<Partition, 'run'>) {
    const consume = (uses: NonceUse[]) => control.run('nonce_uses', { keptMs: NONCE_USES_KEPT_MS, uses });
    this.#batcher = new Batcher(consume, { max: MAX_USES_PER_CALL });
  }

  /** Consumes the use if it is new. Throws as Partition does; the use may be consumed then. */
  consume(use: NonceUse): Promise<NonceUseOutcome> {
    return this.#batcher.add(use);
  }
}
