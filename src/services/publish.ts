import { BusError } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import type { ScriptArgument, Store } from '../redis/store.ts';

/** What rides in one script call: bounds how long it blocks Redis (a few ms) and how long others wait. */
const MOST_EVENTS = 2000;
const MOST_BYTES = 2_000_000;
/** Copies: an event for each subscriber of its topic. */
const MOST_COPIES = 100_000;
/** One publication cannot be split. So many copies take Redis half a second, and no memory limit interrupts a script. */
const MOST_COPIES_ALONE = 1_000_000;
const MOST_TOPICS_REMEMBERED = 10_000;

/** One client's events for one topic; all are stored, or none. */
export interface Publication {
  topic: string;
  /** The client's token. */
  client: string;
  /** Packed events, in their order. */
  events: Buffer[];
}

/** Where the figures of publishing go. */
export interface PublishFigures {
  published(topic: string, events: number, bytes: number): void;
  added(subscriber: string, events: number): void;
}

interface Waiting {
  publication: Publication;
  bytes: number;
  accept: (accepted: boolean) => void;
  fail: (error: unknown) => void;
}

/**
 * Stores publications by group commit: at once when idle; those that arrive while a script call is under way ride
 * together in the next one. Redis is then called once for many events under load, and nobody waits for a timer.
 */
export class Publisher {
  readonly #store: Store;
  readonly #figures: PublishFigures;
  /** How many subscribers a topic had when it was published to last. */
  readonly #subscribers = new Map<string, number>();
  #waiting: Waiting[] = [];
  #underWay = false;

  constructor(store: Store, figures: PublishFigures) {
    this.#store = store;
    this.#figures = figures;
  }

  /**
   * Resolves when the events are in the batch of every subscriber of the topic; false if the topic is another client's.
   * Throws StorageFull (nothing was stored), StorageUnavailable (whether anything was stored is not known), or
   * body_too_large where there are too many subscribers for so many events at once.
   */
  async publish(publication: Publication): Promise<boolean> {
    this.#refuseTooMany(publication);
    return new Promise((accept, fail) => {
      const bytes = publication.events.reduce((sum, event) => sum + event.length, 0);
      this.#waiting.push({ publication, bytes, accept, fail });
      if (!this.#underWay) void this.#commit();
    });
  }

  async #commit(): Promise<void> {
    this.#underWay = true;
    while (this.#waiting.length > 0) {
      // What was read from the network in the same turn of the event loop rides along: a third fewer calls under load.
      await new Promise(setImmediate);
      const group = this.#nextGroup();
      try {
        await this.#storeGroup(group);
      } catch (error) {
        for (const { fail } of group) fail(error);
      }
    }
    this.#underWay = false;
  }

  /** In the order of arrival, as many as fit; one that is over the bounds by itself goes alone. */
  #nextGroup(): Waiting[] {
    let [count, events, bytes, copies] = [0, 0, 0, 0];
    for (const next of this.#waiting) {
      events += next.publication.events.length;
      bytes += next.bytes;
      copies += this.#copies(next.publication);
      if (count > 0 && (events > MOST_EVENTS || bytes > MOST_BYTES || copies > MOST_COPIES)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  #copies({ topic, events }: Publication): number {
    return events.length * (this.#subscribers.get(topic) ?? 1);
  }

  #remember(topic: string, subscribers: number): void {
    if (this.#subscribers.size >= MOST_TOPICS_REMEMBERED) this.#subscribers.clear();
    this.#subscribers.set(topic, subscribers);
  }

  #refuseTooMany(publication: Publication): void {
    if (this.#copies(publication) <= MOST_COPIES_ALONE) return;
    const subscribers = this.#subscribers.get(publication.topic) ?? 1;
    const most = Math.floor(MOST_COPIES_ALONE / subscribers);
    throw new BusError(
      'body_too_large',
      `${publication.topic} has ${subscribers} subscribers; send ${most} events at a time at most`,
    );
  }

  async #storeGroup(group: Waiting[]): Promise<void> {
    const args: ScriptArgument[] = [uidSeed()];
    // Neighbours of one topic and client go as one publication: a fifth less of Redis under load.
    const runOf: number[] = [];
    let [topic, client, run, countAt] = ['', '', -1, 0];
    for (const { publication } of group) {
      if (publication.topic !== topic || publication.client !== client) {
        ({ topic, client } = publication);
        countAt = args.push(topic, client, 0) - 1;
        run++;
      }
      runOf.push(run);
      args[countAt] = (args[countAt] as number) + publication.events.length;
      for (const event of publication.events) args.push(event);
    }
    const [accepted, added] = (await this.#store.run('publish', ...args)) as [number[], (Buffer | number)[]];
    group.forEach(({ publication, bytes, accept }, index) => {
      const subscribers = accepted[runOf[index] as number] as number;
      const ok = subscribers >= 0;
      if (ok) this.#remember(publication.topic, subscribers);
      if (ok) this.#figures.published(publication.topic, publication.events.length, bytes);
      accept(ok);
    });
    for (let i = 0; i < added.length; i += 2) this.#figures.added(String(added[i]), Number(added[i + 1]));
  }
}
