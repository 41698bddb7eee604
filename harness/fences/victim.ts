import { aroundTests } from '../around_tests.ts';
import type { Client } from '../http/client.ts';
import { Helper } from '../measuring/helper.ts';
import type { TimedCalls } from '../measuring/timed_audience.ts';
import { DEFAULT_LIMITS } from '../processes/bus_environment.ts';
import { type BusSettings, type Owner, RunningBus } from '../processes/running_bus.ts';

const EVERY_MS = 20;
/** Time for which a new process is not measured, because it is still slow. */
const WARM_UP_MS = 1000;
const ARRIVES_WITHIN_MS = 10_000;

/** A bus with default limits, one web and one worker, for the tests of a file. */
export function busWithDefaultLimits(settings: BusSettings = {}): RunningBus {
  return RunningBus.forTests({ ...settings, env: { ...DEFAULT_LIMITS, ...settings.env } });
}

/** The findings of a victim: numbers of refusals and events, and times as p99. */
export interface Findings {
  published: number;
  /** Reasons why publishes were refused, or had no answer within 10 s. */
  refused: string[];
  /** Number of the victim's events that the bus dropped for memory. */
  dropped: number;
  /** Number of accepted events that the receiver did not get within 10 s of the last answer. */
  lost: number;
  publishP99Ms: number;
  deliveryP99Ms: number;
}

/**
 * An honest client that publishes to its own topic and subscribes to it, with a receiver that accepts
 * everything at once. Both run in a process of their own, so that an attack from the test's process does not
 * delay them.
 */
export class Victim {
  readonly topic: string;
  readonly #bus: RunningBus;
  readonly #audience: Helper<TimedCalls>;
  #client: Client | undefined;
  #rounds = 0;

  /** A victim for the tests of a file. Call it after `busWithDefaultLimits`. */
  static forTests(bus: RunningBus, topic = 'victims'): Victim {
    const ends: (() => unknown)[] = [];
    const victim = new Victim(bus, { after: (end) => void ends.push(end) }, topic);
    const begin = () => bus.works.then(() => victim.#start());
    aroundTests(begin, async () => {
      for (const end of ends) await end();
    });
    return victim;
  }

  /** A victim for one test: `owner` is its context. */
  static async start(bus: RunningBus, owner: Owner, topic = 'victims'): Promise<Victim> {
    const victim = new Victim(bus, owner, topic);
    await victim.#start();
    return victim;
  }

  private constructor(bus: RunningBus, owner: Owner, topic: string) {
    this.#bus = bus;
    this.topic = topic;
    this.#audience = new Helper(owner, new URL('../measuring/timed_audience.ts', import.meta.url));
  }

  get client(): Client {
    if (!this.#client) throw new Error('the tests have not begun');
    return this.#client;
  }

  /** Publishes an event every 20 ms for this time, and waits until all have arrived. */
  async measure(ms: number): Promise<Findings> {
    const { token, secret } = this.client;
    const droppedBefore = await this.#dropped();
    const { accepted, refused, missing, publish, delivery } = await this.#audience.call('measure', {
      url: this.#bus.url,
      publishers: [{ credentials: { token, secret }, topic: this.topic }],
      name: `${this.topic}/${++this.#rounds}`,
      events: Math.ceil(ms / EVERY_MS),
      perSecond: 1000 / EVERY_MS,
      arrivesWithinMs: ARRIVES_WITHIN_MS,
    });
    return {
      published: accepted.length,
      refused,
      dropped: (await this.#dropped()) - droppedBefore,
      lost: missing,
      publishP99Ms: publish.p99Ms,
      deliveryP99Ms: delivery.p99Ms,
    };
  }

  async #start(): Promise<void> {
    this.#client = await this.#bus.client('victim');
    const [callback] = await this.#audience.call('listen', [this.topic]);
    await this.#client.call('POST', '/subscription', {
      topics: [this.topic],
      callback,
      uuid: 'good',
      timeout: 0,
    });
    await this.measure(WARM_UP_MS);
  }

  async #dropped(): Promise<number> {
    return (await this.client.report()).dropped?.events ?? 0;
  }
}
