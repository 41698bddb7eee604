import { BusError } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import { clientQuota } from '../store/client_quota.ts';
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

/** What a new nonce takes in Redis, or a further step of its bits, and how many of these a client may use in `NONCE_USES_KEPT_MS`. */
const NONCE_BYTES = 300;
const MAX_CLIENT_NONCES = 100_000;

/**
 * One count (`nc`) of a Digest nonce. Each authenticates a single request. `nonce` identifies the nonce, which `key`
 * signed, and `client` is who proved its secret.
 */
export type NonceUse = Arguments<'nonce_uses'>['uses'][number];

/**
 * `repeated`: the use was consumed before, or its count is too high to be stored. `replaced`: the key has been
 * replaced, since Redis may have lost the uses of its nonces. `old`: its client has been refused for too many nonces
 * since it was issued.
 */
export type UseOutcome = Exclude<Reply<'nonce_uses'>[number], 'too_many_nonces'>;

/** Consumes each nonce use once over all processes. */
export class NonceUses {
  readonly #redisMaxBytes: () => number;
  readonly #batcher: Batcher<NonceUse, Reply<'nonce_uses'>[number]>;

  /** `redisMaxBytes` returns the memory limit of Redis, 0 if it has none. */
  constructor(control: Pick<Partition, 'run'>, redisMaxBytes: () => number = () => 0) {
    this.#redisMaxBytes = redisMaxBytes;
    const consume = (uses: NonceUse[]) =>
      control.run('nonce_uses', { keptMs: NONCE_USES_KEPT_MS, maxClientNonces: this.#maxClientNonces, uses });
    this.#batcher = new Batcher(consume, { max: MAX_USES_PER_CALL });
  }

  /**
   * Consumes the use if it is new. Throws as Partition does, and the use may be consumed then; and too_many_nonces.
   */
  async consume(use: NonceUse): Promise<UseOutcome> {
    const outcome = await this.#batcher.add(use);
    if (outcome === 'too_many_nonces') throw this.#tooMany();
    return outcome;
  }

  get #maxClientNonces(): number {
    return clientQuota(MAX_CLIENT_NONCES, NONCE_BYTES, this.#redisMaxBytes());
  }

  #tooMany(): BusError {
    const seconds = Math.ceil(NONCE_USES_KEPT_MS / this.#maxClientNonces / 1000);
    return new BusError(
      'too_many_nonces',
      `this client used more Digest nonces than it may; nothing was done. Try again in ${seconds} s, and send many requests with one nonce`,
      { headers: { 'Retry-After': String(seconds) } },
    );
  }
}
