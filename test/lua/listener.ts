import { until } from '../../harness/until.ts';
import { keyspace } from '../../src/store/keys.ts';
import { Listener as Connections } from '../../src/store/listener.ts';
import type { Partition } from '../../src/store/partition.ts';
import { hashTag } from '../../src/store/tags.ts';

const MARK = 'mark';

const KINDS = ['main', 'aux', 'due', 'suspect'] as const;

/** Records what scripts announce, in order. */
export class Listener {
  readonly #channels: string[];
  readonly #heard: string[] = [];
  readonly #ends: (() => void)[] = [];

  /** Listens to the partitions with these prefixes; by default to the one without a prefix. */
  static async open({ redis }: Partition, ...prefixes: string[]): Promise<Listener> {
    const partitions = (prefixes.length > 0 ? prefixes : ['']).map(keyspace);
    const listener = new Listener(partitions.flatMap((keys) => KINDS.map((kind) => keys.wake(kind))));
    const connections = new Connections(redis);
    const listening = partitions.map(
      (keys) =>
        new Promise<void>((resolve) => {
          const end = connections.listen({
            channels: KINDS.map((kind) => keys.wake(kind)),
            hear: (channel, message) =>
              listener.#heard.push(message === MARK ? `${channel} ${MARK}` : channel),
            listens: resolve,
          });
          listener.#ends.push(end);
        }),
    );
    await Promise.all(listening);
    return listener;
  }

  private constructor(channels: string[]) {
    this.#channels = channels;
  }

  /** Returns the channels on which something was announced while `call` ran. */
  async during(store: Partition, call: () => Promise<unknown>): Promise<string[]> {
    await this.#take(store);
    await call();
    return this.#take(store);
  }

  /** Takes the messages published so far. It publishes a mark last: when the mark has arrived, all messages have. */
  async #take({ redis }: Partition): Promise<string[]> {
    const marks = this.#channels.map((channel) => `${channel} ${MARK}`);
    for (const channel of this.#channels)
      await (hashTag(channel) === undefined ? redis.publish(channel, MARK) : redis.spublish(channel, MARK));
    await until(() => marks.every((mark) => this.#heard.includes(mark)));
    return this.#heard.splice(0).filter((message) => !marks.includes(message));
  }

  close(): void {
    for (const end of this.#ends) end();
  }
}
