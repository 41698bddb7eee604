import { BusError } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import { clientQuota } from '../store/client_quota.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';

/** Time for which a nonce is valid. */
export const NONCE_LIFE_MS = 5 * 60_000;
/**
 * Maximum time by which the time in a nonce may be ahead of Redis's clock, as this process estimates it. The estimate
 * is behind by the time that a reply of Redis takes to arrive.
 */
export const NONCE_AHEAD_MS = 60_000;
/** Time for which Redis remembers which uses of a nonce were consumed. It runs from the first use. */
const NONCE_USES_KEPT_MS = NONCE_LIFE_MS + 2 * NONCE_AHEAD_MS;

/** Maximum nonce uses that one script call consumes. 1000 take Redis about 2 ms. */
const MAX_USES_PER_CALL = 1000;

/**
 * Bytes of Redis that count as one portion of a client's quota for nonces. A new nonce takes one portion, and another
 * one each time the record of its uses grows.
 */
const NONCE_BYTES = 300;
/** Maximum portions of NONCE_BYTES that a client may take within NONCE_USES_KEPT_MS. */
const MAX_CLIENT_NONCES = 100_000;

/**
 * One use (a value of `nc`) of a Digest nonce, which authenticates a single request. `key` is the key that signed the
 * nonce, and `client` is the client that proved its secret with this use.
 */
type NonceUse = Arguments<'nonce_uses'>['uses'][number];

/**
 * The result of consuming a nonce use. `repeated`: the use was consumed before, or its `nc` is too high to be stored.
 * `replaced`: Redis has replaced the key that signed the nonce, because uses of its nonces may be lost. `old`: after
 * this nonce was issued, its client was refused for using too many nonces.
 */
export type UseOutcome = Exclude<Reply<'nonce_uses'>[number], 'too_many_nonces'>;

/** Consumes nonce uses, each only once in all processes. */
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
   * Consumes a nonce use if it is new. Throws too_many_nonces, or an error of Partition. After an error of Partition
   * the use may have been consumed all the same.
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
