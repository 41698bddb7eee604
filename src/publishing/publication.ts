import type { Received } from '../store/contract.ts';
import type { PUBLISHED } from '../store/contracts/publishing.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { ReadEvent } from './event_fields.ts';
import type { Idempotency } from './idempotency.ts';

/** Events of one client for one topic. Either all of them are stored or none. */
export interface Publication {
  topic: string;
  /** The client's token. */
  client: string;
  /** The JSON texts of the events, in the order in which the client sent them. */
  events: string[];
  idempotency?: Idempotency;
}

/** A publication whose events may include delayed ones (with `at` or `delay`). */
export interface TimedPublication extends Omit<Publication, 'events'> {
  events: ReadEvent[];
}

/**
 * The result of a publication, as lua/publishing/publish.lua explains it. Only `accepted` means that this call has
 * stored the publication.
 */
export type Outcome = Reply<'publish'>['outcomes'][number];

/**
 * The result of a publication with delayed events (lua/flow/delayed/delay.lua). If the publication was refused because
 * of one event, `index` is the position of this event, from 0.
 */
export interface TimedOutcome {
  outcome: Reply<'delay'>['outcomes'][number]['outcome'];
  index?: number | undefined;
}

export type PublishLimits = Omit<Arguments<'publish'>, 'uidSeed' | 'publications'>;

export interface PublishRecorder {
  published(topic: string, events: number, bytes: number): void;
  added(subscriber: string, events: number): void;
}

/**
 * Returns how many events were added to the queue of each subscriber of a topic. `subscribers` has their tokens, one on
 * each line.
 */
export function addedBySubscriber({
  events,
  subscribers,
}: Pick<Received<typeof PUBLISHED>, 'events' | 'subscribers'>): [subscriber: string, events: number][] {
  return subscribers === '' ? [] : subscribers.split('\n').map((token) => [token, events]);
}

/**
 * Counts in the metrics the events that a script has published. Events of a topic that lives in another partition
 * (`isForeign`) count only as added to queues: they counted as published when that partition stored them.
 */
export function countPublished(
  recorder: PublishRecorder,
  published: readonly (Received<typeof PUBLISHED> & { isForeign?: boolean })[],
): void {
  for (const each of published) {
    if (!each.isForeign) recorder.published(each.topic, each.events, each.bytes);
    for (const [subscriber, events] of addedBySubscriber(each)) recorder.added(subscriber, events);
  }
}
