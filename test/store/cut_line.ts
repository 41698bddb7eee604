import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { Random } from '../../harness/random.ts';
import { openStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import type { Partition } from '../../src/store/partition.ts';

/** The thing to cut in a call. */
type Cut = 'request' | 'reply';

/** A process's connection to Redis, which is cut now and then in the middle of a call. */
export class CutLine {
  readonly store: Partition;
  readonly #proxy: MeddlingProxy;
  readonly #cuts: Iterator<Cut | undefined, unknown>;

  /** `cuts`: for each call of `once`, how it is cut, if at all. The line ends with the test. */
  static async open(
    t: TestContext,
    socketPath: string,
    cuts: Iterator<Cut | undefined, unknown>,
  ): Promise<CutLine> {
    const proxy = await MeddlingProxy.toRedis(socketPath);
    const store = await openStore(proxy.url);
    t.after(() => {
      store.redis.disconnect();
      proxy.stop();
    });
    return new CutLine(store, proxy, cuts);
  }

  private constructor(store: Partition, proxy: MeddlingProxy, cuts: Iterator<Cut | undefined, unknown>) {
    this.store = store;
    this.#proxy = proxy;
    this.#cuts = cuts;
  }

  /** Resolves with the result of the call, or with `lost` if it was cut off, when the connection is ready again. */
  async once<T>(call: () => Promise<T>): Promise<T | 'lost'> {
    const next = this.#cuts.next();
    const at = next.done ? undefined : next.value;
    const cut = at && this.#proxy.strike(piece(at), { end: 'cut' });
    try {
      const answer = await call();
      assert.ok(!cut, 'the call is not cut off');
      return answer;
    } catch (error) {
      if (!(cut && error instanceof StorageUnavailable)) throw error;
      await until(() => this.store.redis.status === 'ready');
      return 'lost';
    }
  }

  /** Repeats the call until it is answered. `calls` is the number of calls that it took. */
  async insist<T>(call: () => Promise<T>): Promise<{ answer: T; calls: number }> {
    for (let calls = 1; ; calls++) {
      const answer = await this.once(call);
      if (answer !== 'lost') return { answer, calls };
    }
  }
}

/** Yields cuts: a quarter of all calls is cut before it arrives, another before its reply does. A seed repeats them. */
export function* randomCuts(seed: number): Generator<Cut | undefined> {
  const random = new Random(`cuts ${seed}`);
  while (true) yield random.pick([undefined, undefined, 'request', 'reply'] as const);
}
