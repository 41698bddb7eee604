import { until } from '../../harness/until.ts';
import { createLog } from '../../src/log.ts';
import { connectListener } from '../../src/store/connection.ts';
import type { Store } from '../../src/store/store.ts';

const MARK = 'mark';

/** Records the messages of some channels, in their order. */
export class Listener {
  readonly #redis: ReturnType<typeof connectListener>;
  readonly #channels: string[];
  readonly #heard: string[] = [];

  static async open(url: string, ...channels: string[]): Promise<Listener> {
    const listener = new Listener(url, channels);
    await listener.#redis.subscribe(...channels);
    return listener;
  }

  private constructor(url: string, channels: string[]) {
    this.#channels = channels;
    this.#redis = connectListener(url, createLog('silent', {}));
    this.#redis.on('message', (channel: string, message: string) =>
      this.#heard.push(`${channel} ${message}`),
    );
  }

  /** The messages that were published while `call` ran, as `channel message`. */
  async during(store: Store, call: () => Promise<unknown>): Promise<string[]> {
    await this.#take(store);
    await call();
    return this.#take(store);
  }

  /** Takes the messages published so far. A mark is published last, so that its arrival shows that all are here. */
  async #take(store: Store): Promise<string[]> {
    const marks = this.#channels.map((channel) => `${channel} ${MARK}`);
    for (const channel of this.#channels) await store.redis.publish(channel, MARK);
    await until(() => marks.every((mark) => this.#heard.includes(mark)));
    return this.#heard.splice(0).filter((message) => !marks.includes(message));
  }

  close(): void {
    this.#redis.disconnect();
  }
}
