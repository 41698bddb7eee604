import { BusError, StorageFull } from '../errors.ts';
import type { Store } from '../store/store.ts';
import type { Idempotency } from './idempotency.ts';
import { type Outcome, type Publication, storePublications } from './publication.ts';

/** What rides in one script call: bounds how long it blocks Redis (a few ms) and how long others wait. */
const MOST_EVENTS = 2000;
const MOST_BYTES = 2_000_000;
/** So many publications make a call worth while: with 32 it costs 3 µs of web CPU for each, with 128 2 µs, with 512 1.6 µs. */
const ENOUGH = 128;
/** Copies: an event for each subscriber of its topic. */
const MOST_COPIES = 100_000;
/** One publication cannot be split. So many copies take Redis half a second, and no memory limit interrupts a script. */
const MOST_COPIES_ALONE = 1_000_000;
/** So few are not kept for another turn. */
const FEW = 4;
const MOST_TOPICS_REMEMBERED = 10_000;
/** So many go to a topic of which the subscribers are not known yet; for more they are counted first. */
const FEW_EVENTS = 10;

/** Where the figures of publishing go. */
export interface PublishFigures {
  published(topic: string, events: number, bytes: number): void;
  added(subscriber: string, events: number): void;
}

interface Waiting {
  publication: Publication;
  bytes: number;
  accept: (outcome: Outcome) => void;
  fail: (error: unknown) => void;
}

/**
 * Stores publications by group commit: at once when idle; those that arrive while a script call is under way ride
 * together in the next one. Redis is then called once for many events under load, and nobody waits for a timer.
 */
export class Publisher {
  readonly #store: Store;
  readonly #figures: PublishFigures;
  readonly #windowMs: number;
  readonly #onFull: () => void;
  readonly #mostTopics: number;
  /** How many subscribers a topic had when it was published to last. */
  readonly #subscribers = new Map<string, number>();
  #waiting: Waiting[] = [];
  /** How many events wait. */
  #events = 0;
  #underWay = false;
  #enough = () => {};

  /**
   * `windowMs`: for how long an idempotency key is known after the publication was accepted. `onFull` is called when the storage
   * was found full: memory is to be freed at once. Where there are `mostTopics`, no topic is made.
   */
  constructor(
    store: Store,
    figures: PublishFigures,
    windowMs: number,
    onFull = () => {},
    mostTopics = Number.MAX_SAFE_INTEGER,
  ) {
    this.#store = store;
    this.#figures = figures;
    this.#windowMs = windowMs;
    this.#onFull = onFull;
    this.#mostTopics = mostTopics;
  }

  /**
   * Resolves when the events are in the batch of every subscriber of the topic, or it is clear that they will not be.
   * Throws StorageFull (nothing was stored), StorageUnavailable (whether anything was stored is not known; with a key, calling
   * again is safe), or body_too_large where there are too many subscribers for so many events at once.
   */
  publish(publication: Publication): Promise<Outcome> {
    const { topic, events } = publication;
    if (events.length > FEW_EVENTS && !this.#subscribers.has(topic))
      return this.#countSubscribers(topic).then(() => this.publish(publication));
    if (this.#copies(publication) <= MOST_COPIES_ALONE) return this.#enqueue(publication);
    return this.#refuseUnlessKnown(publication).then(() => this.#enqueue(publication));
  }

  #enqueue(publication: Publication): Promise<Outcome> {
    return new Promise((accept, fail) => {
      let bytes = 0;
      for (const event of publication.events) bytes += Buffer.byteLength(event);
      this.#waiting.push({ publication, bytes, accept, fail });
      this.#events += publication.events.length;
      if (!this.#underWay) void this.#commit();
      else if (this.#isEnough()) this.#enough();
    });
  }

  async #commit(): Promise<void> {
    this.#underWay = true;
    while (this.#waiting.length > 0) {
      await this.#enoughOrTurns();
      const group = this.#nextGroup();
      try {
        await this.#storeGroup(group);
      } catch (error) {
        if (error instanceof StorageFull) this.#onFull();
        for (const { fail } of group) fail(error);
      }
    }
    this.#underWay = false;
  }

  /**
   * What is read from the network in the same turn of the event loop rides along; and in the next, unless they are few: with 64
   * connections 52 to a call, and not 31, which is 0.84 of Redis and 0.95 of web; with 16 they are answered sooner too. Few would
   * gain nothing, and wait for whatever else web does in a turn. But one goes on while a thousand sockets have something to say, up to 48 times: with five times the load over
   * 3,000 connections, 9 % of what web sustains were accepted where now it is 35 %. Where more waits than one call takes, Redis is
   * busy enough, and the turn ends first: refusals are to get out.
   */
  #enoughOrTurns(): Promise<void> {
    return new Promise((resolve) => {
      this.#enough = resolve;
      if (this.#isEnough()) resolve();
      else setImmediate(() => (this.#waiting.length < FEW ? resolve() : setImmediate(resolve)));
    });
  }

  #isEnough(): boolean {
    return this.#waiting.length >= ENOUGH && this.#events <= MOST_EVENTS;
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
    const group = this.#waiting.splice(0, count);
    for (const { publication } of group) this.#events -= publication.events.length;
    return group;
  }

  #copies({ topic, events }: Publication): number {
    return events.length * (this.#subscribers.get(topic) ?? 1);
  }

  async #countSubscribers(topic: string): Promise<void> {
    const count = this.#store.command((redis, keys) => redis.scard(keys.topic_subscribers(topic)));
    this.#remember(topic, await count);
  }

  #remember(topic: string, subscribers: number): void {
    if (this.#subscribers.size >= MOST_TOPICS_REMEMBERED && !this.#subscribers.has(topic)) {
      const [oldest = ''] = this.#subscribers.keys();
      this.#subscribers.delete(oldest);
    }
    this.#subscribers.set(topic, subscribers);
  }

  /** Of what its key is known for already, nothing will be copied, however many subscribers there are by now. */
  async #refuseUnlessKnown({ topic, idempotency }: Publication): Promise<void> {
    const known = ({ digest }: Idempotency) =>
      this.#store.command((redis, keys) => redis.exists(keys.idempotency(digest)));
    if (idempotency && (await known(idempotency)) === 1) return;
    const subscribers = this.#subscribers.get(topic) ?? 1;
    const most = Math.floor(MOST_COPIES_ALONE / subscribers);
    throw new BusError(
      'body_too_large',
      `${topic} has ${subscribers} subscribers; send ${most} events at a time at most`,
    );
  }

  async #storeGroup(group: Waiting[]): Promise<void> {
    const publications = group.map(({ publication }) => publication);
    const { outcomes, added } = await storePublications(
      this.#store,
      publications,
      this.#windowMs,
      this.#mostTopics,
    );
    const published = new Map<string, { events: number; bytes: number }>();
    group.forEach(({ publication: { topic, events }, bytes, accept }, index) => {
      const { outcome, subscribers } = outcomes[index] as (typeof outcomes)[number];
      accept(outcome);
      if (outcome !== 'accepted') return;
      const before = published.get(topic);
      if (before === undefined) {
        this.#remember(topic, subscribers);
        published.set(topic, { events: events.length, bytes });
      } else {
        before.events += events.length;
        before.bytes += bytes;
      }
    });
    for (const [topic, { events, bytes }] of published) this.#figures.published(topic, events, bytes);
    for (const [subscriber, events] of added) this.#figures.added(subscriber, events);
  }
}
