import type { TestContext } from 'node:test';
import type { Client } from '../../harness/http/client.ts';
import { until } from '../../harness/until.ts';

/** Publishes one event after the other, and keeps the URLs of those that the bus has accepted. */
export class SteadyPublisher {
  /** The URLs of events that were answered 2xx. */
  readonly accepted: string[] = [];
  /** How many events were not answered 2xx. The bus may have stored them all the same. */
  refused = 0;
  readonly #publishing: Promise<void>;
  #stopped = false;

  /** `name` is part of its events' URLs. It stops with the test at the latest. */
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
