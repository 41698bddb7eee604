import type { Client } from '../harness/http/client.ts';
import type { Delivery } from '../harness/http/receiver.ts';
import { until } from '../harness/until.ts';
import type { TriggerReport } from '../src/flow/triggers/trigger_report.ts';

/** Calls under way while triggers are put. */
const TRIGGERS_AT_A_TIME = 20;
export const PERIOD_MS = 1000;

/** The triggers of a client, and the events that each of them must publish. */
export class TriggerBook {
  readonly #client: Client;
  readonly #topic: string;
  readonly #bodies = new Map<string, Record<string, unknown>>();
  readonly #firstMs = new Map<string, number>();

  constructor(client: Client, topic: string) {
    this.#client = client;
    this.#topic = topic;
  }

  get size(): number {
    return this.#bodies.size;
  }

  /** Puts a new trigger. */
  async put(name: string, body: Record<string, unknown>): Promise<TriggerReport> {
    const event = { type: 'noop', url: `https://shop.example.com/${name}` };
    this.#bodies.set(name, { topic: this.#topic, event, ...body });
    const report = await this.#replace(name);
    if (report.next_at !== null) this.#firstMs.set(name, report.next_at);
    return report;
  }

  async putAll(prefix: string, count: number, body: Record<string, unknown>): Promise<void> {
    for (let from = 0; from < count; from += TRIGGERS_AT_A_TIME) {
      const slice = Array.from(
        { length: Math.min(TRIGGERS_AT_A_TIME, count - from) },
        (_, i) => `${prefix}_${from + i}`,
      );
      await Promise.all(slice.map((name) => this.put(name, body)));
    }
  }

  /** Pauses all triggers. Returns the ids of the events that they published, or should have. */
  async close(): Promise<string[]> {
    const ids: string[] = [];
    for (const [name, firstMs] of this.#firstMs) {
      const { next_at: nextMs } = await this.#replace(name, { paused: true });
      if (nextMs === null) ids.push(`${name}@${firstMs}`);
      else for (let at = firstMs; at < nextMs; at += PERIOD_MS) ids.push(`${name}@${at}`);
    }
    return ids;
  }

  /** Puts a trigger, again and again while Redis is away: a repeat changes nothing more. */
  #replace(name: string, changes: Record<string, unknown> = {}): Promise<TriggerReport> {
    const body = { ...this.#bodies.get(name), ...changes };
    const put = async () => (await this.#client.call('PUT', `/triggers/${name}`, body)) as TriggerReport;
    return until(put, { what: `PUT /triggers/${name}` });
  }
}

/** Returns for each event the ids of the batches that it came in: several if it was stored more than once. */
export function storedIds(deliveries: readonly Delivery[]): Map<string, Set<string>> {
  const batches = new Map<string, Set<string>>();
  for (const { taken, events, id } of deliveries) {
    if (!taken) continue;
    for (const event of events) batches.set(event.id, (batches.get(event.id) ?? new Set()).add(id));
  }
  return batches;
}
