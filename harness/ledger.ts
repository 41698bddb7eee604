import type { TestContext } from 'node:test';
import type { Receiver } from './receiver.ts';
import type { Client } from './running_bus.ts';
import { until } from './until.ts';

/** A publisher that publishes one event after the other, and notes which of them the bus has accepted. */
export class Ledger {
  /** The URLs of events that were answered 2xx. */
  readonly accepted: string[] = [];
  /** How many were not: whether these are stored is not known. */
  refused = 0;
  readonly #publishing: Promise<void>;
  #stopped = false;

  /** `name` keeps the events of several apart. It ends with the test at the latest. */
  constructor(t: TestContext, publisher: Client, topic: string, name: string) {
    this.#publishing = this.#publish(publisher, topic, name);
    t.after(() => this.stop());
  }

  /** Resolves when the event under way is answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#publishing;
  }

  /** Waits until `count` more events were accepted. */
  async accepts(count: number): Promise<void> {
    const before = this.accepted.length;
    await until(() => this.accepted.length >= before + count);
  }

  /** Waits until one more event was refused. */
  async isRefused(): Promise<void> {
    const before = this.refused;
    await until(() => this.refused > before);
  }

  async #publish(publisher: Client, topic: string, name: string): Promise<void> {
    for (let n = 1; !this.#stopped; n++) {
      const url = `https://shop.example.com/${name}/${n}`;
      await publisher.publish(topic, { url }).then(
        () => this.accepted.push(url),
        () => this.refused++,
      );
    }
  }
}

/** Those that the bus has accepted and the receiver has not taken. */
export function missing(accepted: readonly string[], receiver: Receiver): string[] {
  const received = new Set(receiver.urls);
  return accepted.filter((url) => !received.has(url));
}
