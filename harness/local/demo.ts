import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BusAnswerError, BusClient, type Credentials } from '../http/bus_client.ts';
import { deliveryLines } from './delivery_lines.ts';
import { JOIN, PATIENTS, TOPICS, TRIGGER } from './demo_cast.ts';
import { demoEvent, demoEvents } from './demo_events.ts';
import { freeTopics } from './demo_repair.ts';
import { keptClient } from './kept_client.ts';
import { Receiver } from './sample_receiver.ts';

/** The clients of an earlier start, kept because the publisher owns topics, and batches wait for the subscriber. */
interface Kept {
  publisher: Credentials;
  subscriber: Credentials;
  /** Further subscribers of the demo, by name. Absent in the file of an earlier release. */
  patients?: Record<string, Credentials>;
  receiverPort: number;
}

/** Events of the batch that the paused subscriber loses. */
const LOST_EVENTS = 3;
const STAGED_DROP =
  'the demo dropped a batch of demo_paused, to show a drop notice: the console says that memory ran short, but there ' +
  'is enough';
const publishEveryMs = 350;
/** Time for the last batch to arrive: a batch is open for 1.5 s. */
const drainLimitMs = 3000;

/** A sample publisher and sample subscribers, which use only the HTTP API of the bus. */
export class Demo {
  readonly #file: string;
  readonly #print: (line: string) => void;
  readonly #stopping = new AbortController();
  #kept: Kept | undefined;
  #receiver: Receiver | undefined;
  #subscriber: BusClient | undefined;
  #publishing: Promise<void> = Promise.resolve();

  constructor(dataDir: string, print: (line: string) => void) {
    this.#file = join(dataDir, 'demo.json');
    this.#print = print;
    if (existsSync(this.#file)) this.#kept = JSON.parse(readFileSync(this.#file, 'utf8'));
  }

  /**
   * Starts the receiver, at its former port if possible. Call this before the worker starts, so that waiting
   * batches are delivered at once. Returns the port.
   */
  async receive(): Promise<number> {
    const show = (delivery: Parameters<typeof deliveryLines>[0]) => {
      for (const line of deliveryLines(delivery)) this.#print(line);
    };
    const port = this.#kept?.receiverPort ?? 0;
    const answers = new Map(PATIENTS.map(({ path, answer }) => [path, answer]));
    this.#receiver = await Receiver.start(port, show, answers).catch(() => Receiver.start(0, show, answers));
    return this.#receiver.port;
  }

  /**
   * Creates the clients unless those of an earlier start still exist, subscribes them, and lets the publisher publish.
   */
  async begin(busUrl: string, rootKey: string, ownRedisUrl?: string): Promise<void> {
    if (!this.#receiver) throw new Error('receive() comes before begin()');
    const root = new BusClient(busUrl, { token: rootKey, secret: 'x' });
    const kept: Kept = {
      publisher: await keptClient(busUrl, root, 'demo_publisher', this.#kept?.publisher),
      subscriber: await keptClient(busUrl, root, 'demo_subscriber', this.#kept?.subscriber),
      receiverPort: this.#receiver.port,
      patients: Object.fromEntries(
        await Promise.all(
          PATIENTS.map(async ({ name }) => [
            name,
            await keptClient(busUrl, root, name, this.#kept?.patients?.[name]),
          ]),
        ),
      ),
    };
    writeFileSync(this.#file, JSON.stringify(kept), { mode: 0o600 });
    const freed = await freeTopics(root, [kept.publisher.token, kept.subscriber.token]);
    if (freed.length > 0) this.#print(`deleted ${freed.join(', ')}, to which an earlier demo published`);
    const publisher = new BusClient(busUrl, kept.publisher);
    const first = demoEvent(0);
    this.#subscriber = new BusClient(busUrl, kept.subscriber);
    await this.#subscriber.call('POST', '/subscription', {
      topics: TOPICS,
      callback: this.#receiver.callback,
      uuid: 'demo',
      timeout: 1_500,
      max: 10,
    });
    await publish(publisher, first);
    await publisher.call('PUT', `/triggers/${TRIGGER.name}`, TRIGGER.body);
    await this.#subscriber.call('PUT', `/joins/${JOIN.name}`, JOIN.body);
    await this.#admit(busUrl, kept.patients ?? {});
    if (ownRedisUrl !== undefined) await this.#loseSome(busUrl, ownRedisUrl, publisher, kept);
    this.#print(`${kept.publisher.token} publishes to demo_orders and demo_customers, 3 events a second`);
    this.#print(
      `${kept.subscriber.token} receives them on ${this.#receiver.callback}, after 1.5 s or 10 events`,
    );
    for (const { name, story } of PATIENTS) this.#print(`${name} ${story}`);
    if (ownRedisUrl !== undefined) this.#print(STAGED_DROP);
    this.#print(`its trigger ${TRIGGER.name} publishes to ${TRIGGER.body.topic} once a minute`);
    this.#print(
      `the join ${JOIN.name} publishes to ${JOIN.body.then.topic} when a customer has ordered three times`,
    );
    this.#print(`look at ${busUrl}/console as root, with the root key as password`);
    this.#publishing = this.#publishOn(publisher);
  }

  /**
   * Ends the publisher, and waits a little until its events are delivered. The receiver still accepts what
   * the worker delivers.
   */
  async stopPublishing(): Promise<void> {
    this.#stopping.abort();
    await this.#publishing;
    const endAt = performance.now() + drainLimitMs;
    while ((await this.#queued()) > 0 && performance.now() < endAt) await sleep(50);
  }

  /** Subscribes the patients: subscribers that are slow, failing or paused. */
  async #admit(busUrl: string, credentials: Readonly<Record<string, Credentials>>): Promise<void> {
    for (const { name, path, subscription, isPaused } of PATIENTS) {
      const client = new BusClient(busUrl, credentials[name] as Credentials);
      const callback = `http://127.0.0.1:${this.#receiver?.port}${path}`;
      // A new subscription would end the pause, and a delivery before the next pause would carry the drop notice.
      if (isPaused && (await this.#waits(client))) continue;
      await client.call('POST', '/subscription', { ...subscription, callback, uuid: 'demo' });
      if (isPaused) await client.call('POST', '/subscriber/pause');
    }
  }

  /** Returns true if the client is paused and subscribed. */
  async #waits(client: BusClient): Promise<boolean> {
    const [report] = (await client.call('GET', '/subscriptions')) as {
      paused_at: number | null;
      topics: string[];
    }[];
    return typeof report?.paused_at === 'number' && report.topics.length > 0;
  }

  /** Makes the paused subscriber lose a batch, unless it has lost one before, so that there is a drop notice. */
  async #loseSome(busUrl: string, redisUrl: string, publisher: BusClient, { patients }: Kept): Promise<void> {
    const [loser] = PATIENTS.filter(({ isPaused }) => isPaused);
    const credentials = loser && patients?.[loser.name];
    if (!credentials) return;
    const client = new BusClient(busUrl, credentials);
    const { token } = credentials;
    const report = (await client.call('GET', `/subscribers/${token}`)) as { dropped: unknown };
    if (report.dropped) return;
    const lost = demoEvents('demo_customers', LOST_EVENTS);
    for (const event of lost) await publish(publisher, event);
    // Imported here, because it loads most of src/store/, which a start without the demo does not need.
    const { dropOldest } = await import('./demo_drop.ts');
    await dropOldest(redisUrl, token);
  }

  async stop(): Promise<void> {
    await this.stopPublishing();
    await this.#receiver?.stop();
  }

  /** Returns the number of events queued for the sample subscriber; 0 if the bus does not answer. */
  async #queued(): Promise<number> {
    if (!this.#subscriber) return 0;
    try {
      const [report] = (await this.#subscriber.call('GET', '/subscriptions')) as {
        events: { queued: number };
      }[];
      return report?.events.queued ?? 0;
    } catch {
      return 0;
    }
  }

  async #publishOn(publisher: BusClient): Promise<void> {
    const { signal } = this.#stopping;
    for (let n = 1; !signal.aborted; n += 1) {
      await sleep(publishEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      try {
        await publish(publisher, demoEvent(n));
      } catch (error) {
        const { message } = error as Error;
        if (isRefused(error)) return this.#print(`publishes no more, until the next start: ${message}`);
        // The demo goes on with the next event. A real publisher would try again.
        this.#print(`not published, and the demo does not try again: ${message}`);
      }
    }
  }
}

/** True if the publisher was removed, or a topic is another client's. Then the next event would be refused too. */
const isRefused = (error: unknown) => error instanceof BusAnswerError && [401, 403].includes(error.status);

async function publish(
  publisher: BusClient,
  { topic, ...event }: ReturnType<typeof demoEvent>,
): Promise<void> {
  await publisher.call('POST', `/topics/${topic}`, event);
}
