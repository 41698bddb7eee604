import { BusError, StorageFull } from '../../errors.ts';
import { uidSeed } from '../../ids.ts';
import { bytesOf, Copies } from '../../publishing/copies.ts';
import { MAX_DELAY_MS } from '../../publishing/event_fields.ts';
import {
  addedBySubscriber,
  type PublishFigures,
  type PublishLimits,
  type TimedOutcome,
  type TimedPublication,
} from '../../publishing/publication.ts';
import { BYTES_PER_EVENT, MAX_EVENTS_PER_CALL, type Onlooker } from '../../publishing/publisher.ts';
import { Batcher } from '../../store/batcher.ts';
import type { Arguments } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { sumOf } from '../../sum.ts';

/** Maximum timed events (with `at` or `delay`) of one publication. 500 take Redis some 4 ms, in one script call. */
const MAX_TIMED = 500;
/**
 * In the size limit of a script call, a timed event counts as this many other events, because Redis takes ten times as
 * long to store it.
 */
const EVENTS_PER_TIMED = 10;

type DelayLimits = PublishLimits & Pick<Arguments<'delay'>, 'maxClientDelayed' | 'maxClientBytes'>;

/** Stores publications that contain timed events (`at` or `delay`), several in one script call. */
export class Delaying {
  readonly #partitions: Partitions;
  readonly #figures: PublishFigures;
  readonly #limits: DelayLimits;
  readonly #onFull: () => void;
  readonly #onlooker: Onlooker | undefined;
  readonly #copies: Copies;
  readonly #batchers: ReadonlyMap<Partition, Batcher<TimedPublication, TimedOutcome>>;

  /**
   * `onFull` is called if Redis is out of memory. It must free some memory at once. `onlooker`, the live tail for
   * example, gets each accepted publication without its delayed events.
   */
  constructor(
    partitions: Partitions,
    figures: PublishFigures,
    limits: DelayLimits,
    onFull = () => {},
    onlooker?: Onlooker,
  ) {
    this.#partitions = partitions;
    this.#figures = figures;
    this.#limits = limits;
    this.#onFull = onFull;
    this.#onlooker = onlooker;
    this.#copies = new Copies(partitions);
    this.#batchers = new Map(partitions.all.map((partition) => [partition, this.#batcherOf(partition)]));
  }

  /**
   * Resolves with the outcome of the publication. After `accepted`, each event is stored: as a delayed event, or in the
   * batches of the subscribers. After any other outcome, this call has stored nothing.
   *
   * Throws body_too_large for too many timed events, or if events times subscribers exceed a maximum. Throws
   * StorageFull or StorageUnavailable as `Publisher.publish` does.
   */
  async publish(publication: TimedPublication): Promise<TimedOutcome> {
    if (countTimed(publication) > MAX_TIMED)
      throw new BusError(
        'body_too_large',
        `more than ${MAX_TIMED} events with at or delay in one request; send ${MAX_TIMED} at most`,
      );
    await this.#copies.check(publication, bytesOf(publication));
    const home = this.#partitions.ofTopic(publication.topic);
    return (this.#batchers.get(home) as Batcher<TimedPublication, TimedOutcome>).add(publication);
  }

  #batcherOf(partition: Partition): Batcher<TimedPublication, TimedOutcome> {
    return new Batcher((group) => this.#storeGroup(partition, group), {
      max: MAX_EVENTS_PER_CALL,
      weigh: (publication) => this.#weigh(publication),
      ownerOf: ({ client }) => client,
    });
  }

  #weigh(publication: TimedPublication): number {
    const { events } = publication;
    const bytes = sumOf(events.map((event) => Buffer.byteLength(textOf(event))));
    const asEvents = events.length + (EVENTS_PER_TIMED - 1) * countTimed(publication);
    return Math.max(asEvents, bytes / BYTES_PER_EVENT, this.#copies.weigh(publication, bytesOf(publication)));
  }

  async #storeGroup(partition: Partition, group: readonly TimedPublication[]): Promise<TimedOutcome[]> {
    const calling = partition.run('delay', {
      uidSeed: uidSeed(),
      ...this.#limits,
      maxDelayMs: MAX_DELAY_MS,
      publications: group.map(argumentsOf),
    });
    const { outcomes, addedByTopic, nowMs } = await calling.catch((error: unknown) => {
      if (error instanceof StorageFull) this.#onFull();
      throw error;
    });
    for (const [index, { events, subscribers, bytes }] of outcomes.entries()) {
      const publication = group[index] as TimedPublication;
      const { topic } = publication;
      // Here, no event was published at once: all were delayed or refused. The script has not counted the topic's
      // subscribers.
      if (events === 0) continue;
      const atOnce = publication.events.filter((event) => isDue(event, nowMs)).map(textOf);
      this.#onlooker?.note({ ...publication, events: atOnce });
      this.#copies.note(topic, subscribers);
      this.#figures.published(topic, events, bytes);
    }
    for (const [subscriber, events] of addedByTopic.flatMap(addedBySubscriber))
      this.#figures.added(subscriber, events);
    return outcomes;
  }
}

type Event = TimedPublication['events'][number];

const textOf = (event: Event) => (typeof event === 'string' ? event : event.text);

/**
 * True if the script published this event at once, at `nowMs` by Redis's clock. That is never true of an event with a
 * `delay`, because a `delay` is more than 0.
 */
function isDue(event: Event, nowMs: number): boolean {
  return typeof event === 'string' || (event.at !== undefined && event.at <= nowMs);
}

function countTimed({ events }: TimedPublication): number {
  return events.filter((event) => typeof event !== 'string').length;
}

function argumentsOf(publication: TimedPublication): Arguments<'delay'>['publications'][number] {
  const { topic, client, idempotency, events } = publication;
  return {
    topic,
    client,
    ...idempotency,
    events: events.map((event) => (typeof event === 'string' ? { id: '', text: event } : event)),
  };
}
