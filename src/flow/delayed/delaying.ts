import { BusError } from '../../errors.ts';
import { uidSeed } from '../../ids.ts';
import { bytesOf } from '../../publishing/copies.ts';
import { MAX_DELAY_MS } from '../../publishing/event_fields.ts';
import { BYTES_PER_EVENT, groupCommit, type PublishingParts } from '../../publishing/group_commit.ts';
import {
  countPublished,
  type PublishLimits,
  type TimedOutcome,
  type TimedPublication,
} from '../../publishing/publication.ts';
import type { Arguments } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import type { DelayedLimits } from '../../subscribing/topic_refusals.ts';
import { sumOf } from '../../sum.ts';

/** Maximum timed events (with `at` or `delay`) of one publication. 500 take Redis some 4 ms, in one script call. */
const MAX_TIMED = 500;
/**
 * A script call has a maximum size, counted in events. In this count, an event with `at` or `delay` counts as
 * EVENTS_PER_TIMED events without either, because Redis takes ten times as long to store it.
 */
const EVENTS_PER_TIMED = 10;

/**
 * After each script call there is a pause for other work of Redis: as long as the call took, but at most this long
 * (ms). Without pauses, a client that sent a million delayed events made the publishes of others take 33 ms (p99)
 * instead of 15.
 */
const MAX_PAUSE_MS = 20;

type DelayLimits = PublishLimits & DelayedLimits;

/** Stores publications that contain timed events (`at` or `delay`), several in one script call. */
export class Delaying {
  readonly #parts: PublishingParts<DelayLimits>;
  readonly #store: (publication: TimedPublication) => Promise<TimedOutcome>;

  constructor(parts: PublishingParts<DelayLimits>) {
    this.#parts = parts;
    this.#store = groupCommit<TimedPublication, TimedOutcome>(
      parts,
      (partition, group) => this.#storeGroup(partition, group),
      (publication) => this.#weigh(publication),
      MAX_PAUSE_MS,
    );
  }

  /**
   * Resolves with the outcome of the publication. After `accepted`, each event is stored: as a delayed event, or in the
   * batches of the subscribers. After any other outcome, this call has stored nothing.
   *
   * Throws body_too_large for too many timed events, or too many copies (events × subscribers). Throws StorageFull if
   * Redis is out of memory. In these cases nothing is stored. Throws StorageUnavailable if Redis is away. Then the
   * events may be stored or not.
   */
  async publish(publication: TimedPublication): Promise<TimedOutcome> {
    if (countTimed(publication) > MAX_TIMED)
      throw new BusError(
        'body_too_large',
        `more than ${MAX_TIMED} events with at or delay in one request; send ${MAX_TIMED} at most`,
      );
    await this.#parts.copies.check(publication, bytesOf(publication));
    return this.#store(publication);
  }

  #weigh(publication: TimedPublication): number {
    const { events } = publication;
    const bytes = sumOf(events.map((event) => Buffer.byteLength(textOf(event))));
    const asEvents = events.length + (EVENTS_PER_TIMED - 1) * countTimed(publication);
    const copies = this.#parts.copies.weigh(publication, bytesOf(publication));
    return Math.max(asEvents, bytes / BYTES_PER_EVENT, copies);
  }

  async #storeGroup(partition: Partition, group: readonly TimedPublication[]): Promise<TimedOutcome[]> {
    const { limits, onAccepted, copies, recorder } = this.#parts;
    const { outcomes, published, nowMs } = await partition.run('delay', {
      uidSeed: uidSeed(),
      ...limits,
      maxDelayMs: MAX_DELAY_MS,
      publications: group.map(argumentsOf),
    });
    for (const [index, { outcome, subscribers }] of outcomes.entries()) {
      const publication = group[index] as TimedPublication;
      const atOnce = publication.events.filter((event) => isDue(event, nowMs)).map(textOf);
      // If no event of the publication was published at once, the script replies 0 `subscribers`, even if the topic has
      // some. So `copies`, which remembers how many subscribers each topic has, must not note this 0.
      if (outcome !== 'accepted' || atOnce.length === 0) continue;
      onAccepted({ ...publication, events: atOnce });
      copies.note(publication.topic, subscribers);
    }
    countPublished(recorder, published);
    return outcomes;
  }
}

type Event = TimedPublication['events'][number];

const textOf = (event: Event) => (typeof event === 'string' ? event : event.text);

/**
 * True if the script published this event at once, because it has no time (it is a string), or its `at` has passed. A
 * `delay` has not passed yet, because it is more than 0. `nowMs` is the time of the script call by Redis's clock.
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
