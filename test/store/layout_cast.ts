import type { Client, Event } from '../../harness/http/client.ts';
import type { Answer, Receiver } from '../../harness/http/receiver.ts';
import type { Owner, RunningBus } from '../../harness/processes/running_bus.ts';

/** Returns an event that is the same in every run. */
export const event = (id: string, more: Partial<Event> = {}): Event => ({
  ...{ id, url: `https://shop.example.com/${id}`, timestamp: 1_600_000_000_000 },
  ...more,
});

/** A publisher with a secret, and subscribers, each with its name as its token and with a receiver of its own. */
export class Cast {
  readonly bus: RunningBus;
  readonly shop: Client;
  readonly #t: Owner;
  readonly #clients: Record<string, Client> = {};
  readonly #receivers: Record<string, Receiver> = {};
  readonly #held: (() => void)[] = [];

  static async of(t: Owner, bus: RunningBus): Promise<Cast> {
    return new Cast(t, bus, await bus.client('shop'));
  }

  private constructor(t: Owner, bus: RunningBus, shop: Client) {
    this.#t = t;
    this.bus = bus;
    this.shop = shop;
  }

  /** Adds a subscriber, which subscribes to the topic of its name unless other `topics` are wanted. */
  async subscriber(name: string, usual: Answer, wanted: object = {}): Promise<void> {
    await this.bus.root.call('POST', '/api_tokens', { name, token: name });
    const client = this.bus.clientOf(name, 'x');
    const receiver = await this.bus.receiver(this.#t);
    receiver.usual = usual;
    const { callback } = receiver;
    await client.call('POST', '/subscription', { topics: [name], callback, timeout: 0, ...wanted });
    this.#clients[name] = client;
    this.#receivers[name] = receiver;
  }

  client(name: string): Client {
    const client = this.#clients[name];
    if (!client) throw new Error(`there is no client ${name}`);
    return client;
  }

  receiver(name: string): Receiver {
    const receiver = this.#receivers[name];
    if (!receiver) throw new Error(`there is no receiver ${name}`);
    return receiver;
  }

  /** Has the shop publish events with these ids to a topic. */
  async publish(topic: string, ...ids: string[]): Promise<void> {
    await this.shop.publish(
      topic,
      ids.map((id) => event(id)),
    );
  }

  /** Leaves the next delivery to a subscriber unanswered until `release`. */
  hold(name: string): void {
    this.#held.push(this.receiver(name).hold());
  }

  release(): void {
    for (const end of this.#held) end();
  }
}
