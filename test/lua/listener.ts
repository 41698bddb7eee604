import { until } from '../../harness/until.ts';
import { createLog } from '../../src/log.ts';
import { connectListener } from '../../src/store/connection.ts';
import { keyspace } from '../../src/store/keys.ts';
import type { Partition } from '../../src/store/partition.ts';

const MARK = 'mark';

const KINDS = ['main', 'aux', 'due', 'suspect'] as const;

/** Records what scripts announce, in order. */
export class Listener {
  readonly #redis: ReturnType<typeof connectListener>;
  readonly #channels: string[];
  readonly #heard: string[] = [];

  /** Listens to the partitions with these prefixes; by default to the one without a prefix. */
  static async open(url: string, ...prefixes: string[]): Promise<Listener> {
    const partitions = (prefixes.length > 0 ? prefixes : ['']).map(keyspace);
    const channels = partitions.flatMap((keys) => KINDS.map((kind) => keys.wake(kind)));
    const listener = new Listener(url, channels);
    await listener.#redis.subscribe(...channels);
    return listener;
  }

  private constructor(url: string, channels: string[]) {
    this.#channels = channels;
    this.#redis = connectListener(url, createLog('silent', {}));
    this.#redis.on('message', (channel: string, message: string) =>
      this.#heard.push(message === MARK ? `${channel} ${MARK}` : channel),
    );
  }

  /** Returns the channels on which something was announced while `call` ran. */
  async during(store: Partition, call: () => Promise<unknown>): Promise<string[]> {
    await this.#take(store);
    await call();
    return this.#take(store);
  }

  /** Takes the messages published so far. It publishes a mark last: when the mark has arrived, all messages have. */
  async #take(store: Partition): Promise<string[]> {
    const marks = this.#channels.map((channel) => `${channel} ${MARK}`);
    for (const channel of this.#channels) await store.redis.publish(channel, MARK);
    await until(() => marks.every((mark) => this.#heard.includes(mark)));
    return this.#heard.splice(0).filter((message) => !marks.includes(message));
  }

  close(): void {
    this.#redis.disconnect();
  }
}
