import type { ScriptArgument } from '../store/script_values.ts';
import type { Store } from '../store/store.ts';

/** For how long a nonce is good. */
export const NONCE_LIFE_MS = 5 * 60_000;
/** How far a nonce may be ahead: processes know Redis's clock, but for what its answer took. */
export const NONCE_AHEAD_MS = 60_000;
/** For how long the counts of a nonce matter, from its first use. */
export const COUNTS_KEPT_MS = NONCE_LIFE_MS + 2 * NONCE_AHEAD_MS;

const ONE = '1'.charCodeAt(0);
/** What one script call takes: some 2 ms of Redis. */
const MOST_AT_ONCE = 1000;

/** A count of a nonce, which a request is authenticated by, once. */
export interface NonceCount {
  /** What tells the nonce from all others. */
  nonce: string;
  count: number;
}

export type Taken = (error: unknown, isNew?: boolean) => void;

interface Waiting extends NonceCount {
  done: Taken;
}

/**
 * Takes each count of a nonce once, over all processes. Those that come in one turn of the event loop, or while Redis is being
 * asked, go in one call: under load that is one for many requests.
 */
export class NonceCounts {
  readonly #store: Store;
  #waiting: Waiting[] = [];
  #asking = false;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether the count had not been taken, and now is. False also for one that is too high: it could not be remembered. */
  take({ nonce, count }: NonceCount, done: Taken): void {
    this.#waiting.push({ nonce, count, done });
    if (this.#asking) return;
    this.#asking = true;
    setImmediate(() => void this.#ask());
  }

  async #ask(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, MOST_AT_ONCE);
      const args: ScriptArgument[] = [COUNTS_KEPT_MS];
      for (const { nonce, count } of group) args.push(nonce, count);
      await this.#store.run('nonce_counts', ...args).then(
        (taken) => {
          for (const [index, { done }] of group.entries()) done(null, (taken as Buffer)[index] === ONE);
        },
        (error) => {
          for (const { done } of group) done(error);
        },
      );
    }
    this.#asking = false;
  }
}
