import type { TestContext } from 'node:test';
import { type Cut, CuttingProxy } from '../../harness/cutting_proxy.ts';
import { openStore } from '../../harness/store.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import type { Store } from '../../src/store/store.ts';

/** What one process has of Redis: a connection, which is cut now and then, in the middle of a call. */
export class CutLine {
  readonly store: Store;
  readonly #proxy: CuttingProxy;
  readonly #cuts: Iterator<Cut | undefined, unknown>;

  /** `cuts`: what becomes of each call; nothing where it is undefined. It ends with the test. */
  static async open(
    t: TestContext,
    socketPath: string,
    cuts: Iterator<Cut | undefined, unknown>,
  ): Promise<CutLine> {
    const proxy = await CuttingProxy.start(socketPath);
    const store = await openStore(proxy.url);
    t.after(() => {
      store.redis.disconnect();
      proxy.stop();
    });
    return new CutLine(store, proxy, cuts);
  }

  private constructor(store: Store, proxy: CuttingProxy, cuts: Iterator<Cut | undefined, unknown>) {
    this.store = store;
    this.#proxy = proxy;
    this.#cuts = cuts;
  }

  /** What the call answers, or `lost` if it was cut off: it is connected again then. */
  async once<T>(call: () => Promise<T>): Promise<T | 'lost'> {
    const next = this.#cuts.next();
    const cut = next.done ? undefined : next.value;
    if (cut) this.#proxy.cutNext(cut);
    try {
      return await call();
    } catch (error) {
      if (!(cut && error instanceof StorageUnavailable)) throw error;
      await until(() => this.store.redis.status === 'ready');
      return 'lost';
    }
  }

  /** Calls until it is answered; says how many calls that took. */
  async insist<T>(call: () => Promise<T>): Promise<{ answer: T; calls: number }> {
    for (let calls = 1; ; calls++) {
      const answer = await this.once(call);
      if (answer !== 'lost') return { answer, calls };
    }
  }
}

/** Of two calls one is cut, before it arrives or before its reply does; at random, the same for the same seed. */
export function* randomCuts(seed: number): Generator<Cut | undefined> {
  // mulberry32
  for (let state = seed; ; ) {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    const drawn = (bits ^ (bits >>> 14)) >>> 30;
    yield drawn > 1 ? undefined : drawn === 1 ? 'request' : 'reply';
  }
}
