import { BusError } from '../errors.ts';
import { Batcher } from '../store/batcher.ts';
import { clientQuota } from '../store/client_quota.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { FIND_AND_RENAME } from '../store/wrong_type.ts';

export const NONCE_LIFE_MS = 5 * 60_000;
/**
 * Maximum time that a nonce may lie in the future. Each process estimates the time of Redis's clock, and puts it in the
 * nonces that it issues. The estimates differ, so a new nonce of another process may seem to be from the future.
 */
export const NONCE_AHEAD_MS = 60_000;
/**
 * Time for which Redis remembers the uses of a nonce, counted from the first use. After this time the nonce is invalid
 * anyway.
 */
const NONCE_USES_KEPT_MS = NONCE_LIFE_MS + 2 * NONCE_AHEAD_MS;

/** Maximum nonce uses in one script call. 1000 take Redis about 2 ms. */
const MAX_USES_PER_CALL = 1000;
/**
 * Maximum turns of the event loop for which nonce uses are collected for one script call. With 64 publishers at a time,
 * four turns collect some 55 uses, and two turns 23. Compared with two, four turns save the web process 3 % of its CPU
 * and Redis 9 %, and answers do not come later.
 */
const MAX_LOOP_TURNS = 4;

/**
 * Memory (bytes) that a nonce takes in Redis while it has up to 512 uses. Each further 512 uses take as much again. A
 * client's quota for nonces is counted in units of this size.
 */
const NONCE_BYTES = 300;
/**
 * Size of a client's quota for nonces, in units of NONCE_BYTES; smaller if Redis has little memory. An empty quota
 * refills steadily, and is full again after NONCE_USES_KEPT_MS.
 */
const MAX_CLIENT_NONCES = 100_000;

const UNREADABLE = `another program has written a key of a client's nonces. ${FIND_AND_RENAME}`;

/** One use of a nonce, which was signed with `key`. `client` is a client's token, `root` or `viewer`. */
type NonceUse = Arguments<'nonce_uses'>['uses'][number];

/**
 * The outcome of a nonce use. The request is accepted only after `consumed`. lua/authentication/nonce_uses.lua explains
 * the other outcomes.
 */
export type UseOutcome = Exclude<Reply<'nonce_uses'>[number], 'too_many_nonces' | 'unreadable'>;

/** Notes in Redis which Digest nonce uses were accepted, so that no two processes accept the same one. */
export class NonceUses {
  readonly #redisMaxBytes: () => number;
  readonly #batcher: Batcher<NonceUse, Reply<'nonce_uses'>[number]>;

  /** `redisMaxBytes` returns the memory limit of Redis; 0 if it has none. */
  constructor(control: Pick<Partition, 'run'>, redisMaxBytes: () => number = () => 0) {
    this.#redisMaxBytes = redisMaxBytes;
    const consume = (uses: NonceUse[]) =>
      control.run('nonce_uses', {
        keptMs: NONCE_USES_KEPT_MS,
        aheadMs: NONCE_AHEAD_MS,
        maxClientNonces: this.#maxClientNonces,
        uses,
      });
    this.#batcher = new Batcher(consume, { max: MAX_USES_PER_CALL, maxLoopTurns: MAX_LOOP_TURNS });
  }

  /**
   * Throws too_many_nonces (the quota is empty) or StorageUnavailable (the use may be consumed nevertheless). Throws
   * another error if another program has written a key that the use needs.
   */
  async consume(use: NonceUse): Promise<UseOutcome> {
    const outcome = await this.#batcher.add(use);
    if (outcome === 'too_many_nonces') throw this.#tooMany();
    if (outcome === 'unreadable') throw new Error(UNREADABLE);
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
