import type { Client } from '../harness/http/client.ts';
import { Helper } from '../harness/measuring/helper.ts';
import type { TimedCalls, Timing } from '../harness/measuring/timed_audience.ts';
import type { Lab } from './lab.ts';

/** Events a second that all good clients publish together. */
export const PER_SECOND = 40;

/** Clients that publish and receive in one process that does nothing else, so that nothing but the bus delays them. */
export class GoodClients {
  readonly #lab: Lab;
  readonly #audience: Helper<TimedCalls>;
  readonly #clients: Client[] = [];

  /** Makes `count` clients. Each has a topic of its own and subscribes to it. */
  static async open(lab: Lab, count: number): Promise<GoodClients> {
    const good = new GoodClients(lab);
    const topics = Array.from({ length: count }, (_, n) => `good_${n}`);
    const callbacks = await good.#audience.call('listen', topics);
    for (const [n, callback] of callbacks.entries()) {
      const client = await lab.bus.client('good');
      await client.call('POST', '/subscription', { topics: [topics[n]], callback, uuid: 'good', timeout: 0 });
      good.#clients.push(client);
    }
    return good;
  }

  private constructor(lab: Lab) {
    this.#lab = lab;
    this.#audience = new Helper(lab, new URL('../harness/measuring/timed_audience.ts', import.meta.url));
  }

  /** Publishes events in turns, and waits until all have arrived. */
  async measure(name: string, seconds: number): Promise<Timing> {
    const timing = await this.#audience.call('measure', {
      url: this.#lab.bus.url,
      publishers: this.#clients.map(({ token, secret }, n) => ({
        credentials: { token, secret },
        topic: `good_${n}`,
      })),
      name: name.replaceAll(' ', '-'),
      events: seconds * PER_SECOND,
      perSecond: PER_SECOND,
    });
    this.#lab.ledger.accept('good', timing.accepted);
    return timing;
  }

  /** Resolves with the number of their events that the bus has dropped. */
  async dropped(): Promise<number> {
    const reports = await Promise.all(this.#clients.map((client) => client.report()));
    return reports.reduce((sum, { dropped }) => sum + (dropped?.events ?? 0), 0);
  }
}
