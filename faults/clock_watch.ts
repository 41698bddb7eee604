import { BusAnswerError } from '../harness/http/bus_client.ts';
import type { Client } from '../harness/http/client.ts';
import { answer, type Delivery } from '../harness/http/receiver.ts';
import { until } from '../harness/until.ts';
import { sleep } from '../src/clock.ts';
import type { Audience, Lab } from './lab.ts';

/** The delay that a busy machine and a date in whole seconds may add. The wrong clocks are off by at least 60 s. */
const SLACK_MS = 2000;
/** Time by which a delivery may seem to come early, as Redis rounds to whole ms. */
const EARLY_MS = 2;
const YEARS_MS = 30 * 365 * 86_400e3;
const TIMESTAMPS = [0, -1, 1, -(2 ** 53 - 1), 2 ** 53 - 1, Date.now() + YEARS_MS, Date.now() - YEARS_MS];
const NO_TIMESTAMPS = [2 ** 53, -(2 ** 53), 1e300, 0.5, '0'];

/** Subscribers by name, with the timeout of their batches. */
const SUBSCRIBERS = {
  prompt: { timeout: 0 },
  soon: { timeout: 400 },
  later: { timeout: 1500 },
  /** The receiver of this subscriber holds each delivery for longer than the lease. */
  slow: { timeout: 0 },
  /** The receiver of this subscriber refuses one delivery, with Retry-After. */
  refusing: { timeout: 0 },
};
export const EVENTS_PER_ROUND = Object.keys(SUBSCRIBERS).length;

/** Checks that the subscribers get every event once and in time. */
export class ClockWatch {
  readonly #lab: Lab;
  readonly #heldMs: number;
  readonly #audiences = new Map<string, Audience>();
  /** Deliveries that came early, late, changed, or not exactly once. */
  readonly #wrong: string[] = [];
  #latestMs = 0;
  #publisher!: Client;
  #events = 0;

  /** `leaseMs`: the lease of the workers. */
  constructor(lab: Lab, leaseMs: number) {
    this.#lab = lab;
    this.#heldMs = 1.6 * leaseMs;
  }

  async open(): Promise<void> {
    this.#publisher = await this.#lab.bus.client('clockmaker');
    for (const [topic, { timeout }] of Object.entries(SUBSCRIBERS))
      this.#audiences.set(topic, await this.#lab.subscribe(topic, { topic, timeout }));
    const slow = this.#audiences.get('slow');
    if (slow)
      slow.receiver.usual = (response) => setTimeout(() => answer.status(204)(response), this.#heldMs);
  }

  /** Publishes an event to each subscriber, and waits until each has taken its event. */
  async round(what: string): Promise<void> {
    const { refusing, ...others } = Object.fromEntries(this.#audiences) as Record<string, Audience>;
    const rounds = Object.entries(others).map(([topic, audience]) => this.#deliver(what, topic, audience));
    if (refusing) rounds.push(this.#refuse(what, refusing));
    await Promise.all(rounds);
  }

  /** Checks that invalid timestamps are refused. */
  async refuseNonsense(): Promise<void> {
    for (const timestamp of NO_TIMESTAMPS) {
      const status = await this.#publish('prompt', timestamp).then(
        () => 204,
        (error) => (error instanceof BusAnswerError ? error.status : error),
      );
      if (status !== 400) this.#wrong.push(`an event of ${timestamp} was answered ${status}`);
    }
  }

  judge(): void {
    const latest = `the latest ${Math.round(this.#latestMs)} ms after it was due`;
    const text = `every event comes once, as it was sent, neither early nor late (${latest})`;
    this.#lab.bar(text, this.#wrong.length === 0, this.#wrong.join('; '));
  }

  async #deliver(what: string, topic: string, { receiver }: Audience): Promise<void> {
    const { timeout } = SUBSCRIBERS[topic as keyof typeof SUBSCRIBERS];
    const before = receiver.deliveries.length;
    const timestamp = this.#lab.random.pick(TIMESTAMPS);
    const beganMs = performance.now();
    await this.#publish(topic, timestamp);
    const answeredMs = performance.now();
    const delivery = await receiver.delivery(before + 1, { timeoutMs: timeout + 10 * SLACK_MS });
    this.#time(`${what}: ${topic}`, delivery, beganMs + timeout, answeredMs + timeout);
    if (delivery.events[0]?.t !== timestamp) this.#wrong.push(`${timestamp} became ${delivery.events[0]?.t}`);
    await until(() => delivery.taken);
    // A batch that another worker was given meanwhile would come again now.
    await sleep(50);
    const { length } = receiver.deliveries;
    if (length !== before + 1) this.#wrong.push(`${what}: ${topic} came ${length - before} times`);
  }

  /** The subscriber refuses once, with a Retry-After date by its own clock, which is right. */
  async #refuse(what: string, { subscriber, receiver }: Audience): Promise<void> {
    const before = receiver.deliveries.length;
    let dueMs = Number.NaN;
    receiver.answers((response) => {
      const date = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000);
      dueMs = performance.now() + date.getTime() - Date.now();
      answer.status(503, { 'retry-after': date.toUTCString() })(response);
    });
    await this.#publish('refusing', this.#lab.random.pick(TIMESTAMPS));
    try {
      const again = await receiver.delivery(before + 2, { timeoutMs: 10 * SLACK_MS });
      this.#time(`${what}: a batch that was refused`, again, dueMs, dueMs);
    } catch {
      this.#wrong.push(`${what}: a batch that was refused did not come again`);
      // A batch that stays queued would delay the next rounds.
      const client = this.#lab.bus.clientOf(subscriber.token, subscriber.secret);
      const { callback } = receiver;
      await client.call('DELETE', '/subscriber');
      await client.call('POST', '/subscription', { topics: ['refusing'], callback, uuid: 'lab', timeout: 0 });
    }
  }

  #time(what: string, { atMs }: Delivery, fromMs: number, toMs: number): void {
    this.#latestMs = Math.max(this.#latestMs, atMs - toMs);
    if (atMs < fromMs - EARLY_MS) this.#wrong.push(`${what} came ${Math.round(fromMs - atMs)} ms early`);
    if (atMs > toMs + SLACK_MS) this.#wrong.push(`${what} came ${Math.round(atMs - toMs)} ms late`);
  }

  async #publish(topic: string, timestamp: unknown): Promise<void> {
    const url = `https://shop.example.com/${topic}/${++this.#events}`;
    const client = this.#lab.bus.clientOf(this.#publisher.token, this.#publisher.secret); // the latest web
    await client.call('POST', `/topics/${topic}`, { type: 'create', url, timestamp });
    this.#lab.ledger.accept(topic, [url]);
  }
}
