import type { SubscriberReport } from '../../src/subscribing/subscriber_report.ts';
import { BusClient, type Credentials } from './bus_client.ts';

export interface Event {
  id?: string;
  type?: string;
  url: string;
  timestamp?: number;
  at?: number;
  delay?: number;
  data?: unknown;
}

/** A client of the bus, as a service would use it. */
export class Client extends BusClient {
  readonly token: string;
  readonly secret: string;

  constructor(url: string, credentials: Credentials) {
    super(url, credentials);
    this.token = credentials.token;
    this.secret = credentials.secret;
  }

  /** Publishes one event or an array of events. With an idempotency key, a repeat is harmless. */
  async publish(topic: string, events: Event | Event[], key?: string): Promise<void> {
    const typed = (event: Event) => ({ type: 'create', ...event });
    const body = Array.isArray(events) ? events.map(typed) : typed(events);
    await this.call(
      'POST',
      `/topics/${topic}`,
      body,
      key === undefined ? {} : { 'idempotency-key': `"${key}"` },
    );
  }

  async report(): Promise<SubscriberReport> {
    const [report] = (await this.call('GET', '/subscriptions')) as SubscriberReport[];
    if (!report) throw new Error(`${this.token} is no subscriber`);
    return report;
  }
}
