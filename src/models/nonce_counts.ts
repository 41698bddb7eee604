import type { ScriptArgument, Store } from '../redis/store.ts';

/** At 20 KB of Redis a nonce has served long enough. */
const MOST_COUNT = 65_535;
/** A client that shares a nonce between connections is out of order by as many as it has. */
const MOST_AHEAD = 1024;
const ONE = '1'.charCodeAt(0);
/** What one script call takes: some 2 ms of Redis. */
const MOST_AT_ONCE = 1000;

export type Taken = (error: unknown, isNew?: boolean) => void;

interface Waiting {
  nonce: string;
  count: number;
  done: Taken;
}

/**
 * Takes each count of a nonce once, over all processes. Those that come in one turn of the event loop, or while Redis is being
 * asked, go in one call: under load that is one for many requests.
 */
export class NonceCounts {
  readonly #store: Store;
  readonly #keepMs: number;
  #waiting: Waiting[] = [];
  #asking = false;

  /** `keepMs`: for how long a nonce is good after its first use, at most. */
  constructor(store: Store, keepMs: number) {
    this.#store = store;
    this.#keepMs = keepMs;
  }

  /** Whether the count had not been taken, and now is. False also for one that is too high: it could not be remembered. */
  take(nonce: string, count: number, done: Taken): void {
    this.#waiting.push({ nonce, count, done });
    if (this.#asking) return;
    this.#asking = true;
    setImmediate(() => void this.#ask());
  }

  async #ask(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, MOST_AT_ONCE);
      const args: ScriptArgument[] = [this.#keepMs, MOST_COUNT, MOST_AHEAD];
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
